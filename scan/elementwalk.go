package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/scan"
)

// maxRestarts is how often one loop starts again because another server process answers.
const maxRestarts = 10

// errNameless is for a server, or a proxy in front of it, without a run_id: the scan could not tell
// whether a cursor is still valid.
var errNameless = errors.New("scan: the server's INFO has no run_id, so it may be a proxy in front of a cluster, where keys that move would be missed: " +
	"scan what is behind it, like redis-cluster://host:port, or each server")

// An elementWalk scans the elements of one key.
type elementWalk struct {
	client              *redoubt.Client
	key, match, command string
	count               int

	// The end of the pages that were taken.
	process string // the run_id of the server process that gave the cursor
	cursor  string // empty: the beginning
	mark    *mark  // in the page at cursor; nil: nothing of it was given
	ended   bool
	looked  int64
	total   int64
}

// A page is the reply to one call.
type page struct {
	part    *part // for keys
	process string
	cursor  string  // of it; not set for keys
	next    string  // the cursor behind it
	mark    *mark   // the items, and how many of them were given
	result  []int64 // of the job that was done to what is left of them
	failed  error   // what the job says
	looked  int64   // in all, by the end of the page
	total   int64
	err     error
}

func (w *elementWalk) run(ctx context.Context, job job, each func(*page) (bool, error)) error {
	if w.ended {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	pages, done := make(chan page), make(chan struct{})
	go func() {
		defer close(done)
		w.fetch(ctx, pages, w.process, w.cursor, w.mark, w.looked)
	}()
	defer func() { <-done }()
	defer cancel()
	for !w.ended {
		var p page
		select {
		case p = <-pages:
		case <-ctx.Done():
			return ctx.Err()
		}
		if p.err != nil {
			return p.err
		}
		if job != nil {
			if p.result, p.err = job(ctx, p.mark.left()); p.err != nil {
				return p.err
			}
		}
		w.process, w.cursor, w.mark = p.process, p.cursor, p.mark
		if took, err := each(&p); err != nil || !took {
			return err
		}
		w.cursor, w.mark, w.ended, w.looked, w.total = p.next, nil, p.next == "0", p.looked, p.total
	}
	w.looked = w.total
	return nil
}

// fetch sends pages until the last one or an error. It starts again when another server process has the
// key, because the cursor means nothing to that process.
//
// fetch believes that the key does not exist only when a server says so twice. A call that is redirected
// to the destination of the key can arrive so late that the key has been there, has gone back, and is on
// its way once more.
func (w *elementWalk) fetch(ctx context.Context, pages chan<- page, process, cursor string, mark *mark, looked int64) {
	if cursor == "" {
		cursor = "0"
	}
	gone := false
	for restarts := 0; ; {
		p := w.page(ctx, cursor, mark)
		if p.err == nil && p.total == 0 && !gone {
			gone = true
			continue
		}
		gone = false
		if p.err == nil && p.process != process && cursor != "0" {
			process, cursor, mark, looked = p.process, "0", nil, 0
			if restarts++; restarts <= maxRestarts {
				continue
			}
			p.err = fmt.Errorf("%w: the key was on %d servers, one after the other", ErrUnsettled, restarts)
		}
		looked += int64(w.count)
		process, cursor, mark, p.looked = p.process, p.next, nil, looked
		select {
		case pages <- p:
		case <-ctx.Done():
			return
		}
		if p.err != nil || p.next == "0" {
			return
		}
	}
}

func (w *elementWalk) page(ctx context.Context, cursor string, mark *mark) (p page) {
	count := mark.count(w.count)
	match := cmp.Or(w.match, "*")
	reply, err := w.client.Do(ctx, wire.ElementsCmd(w.key, w.command, cursor, strconv.Itoa(count), match)).Array()
	if err == nil && len(reply) != 4 {
		err = fmt.Errorf("scan: reply has %d elements, want 4", len(reply))
	}
	if err != nil {
		return page{err: err}
	}
	p.cursor = cursor
	p.next, p.err = redoubt.Reply{Val: reply[0]}.Text()
	p.process, err = redoubt.Reply{Val: reply[2]}.Text()
	p.err = errors.Join(p.err, err)
	p.total, err = redoubt.Reply{Val: reply[3]}.Int()
	p.err = errors.Join(p.err, err)
	items, err := texts(reply[1])
	p.err = errors.Join(p.err, err)
	p.mark = markOf(items, count, mark)
	if p.err == nil && p.process == "" {
		p.err = errNameless
	}
	return p
}

// texts reads an array of strings.
func texts(v any) ([]string, error) {
	array, err := redoubt.Reply{Val: v}.Array()
	if err != nil {
		return nil, err
	}
	list := make([]string, len(array))
	for i, e := range array {
		if list[i], err = (redoubt.Reply{Val: e}).Text(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (w *elementWalk) progress() Progress { return Progress{w.looked, w.total} }
