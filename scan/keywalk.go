package scan

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/keyslot"
)

const (
	// patience is how long a scan waits for slots that no node owns, or that are moving to a node that
	// owns none: a failover, or the first slot of a new node.
	patience = 30 * time.Second
	// briefly is how long a scan waits at its beginning for slots that no node owns. Then it takes them to
	// have no keys.
	briefly = time.Second

	leastPause, mostPause = 20 * time.Millisecond, time.Second

	// snapshotInterval is how often a scan of a cluster asks which slots are moving. A slot that leaves a node and
	// comes back between two snapshots can cost the scan keys of that slot.
	snapshotInterval = time.Second
)

// A keyWalk scans the keys of all primaries.
type keyWalk struct {
	client *redoubt.Client
	query  Query
	count  int

	begun   bool // total is known, and what nobody owned in the beginning is covered
	plan    plan
	cluster bool
	nodes   []string // ids that were seen, of a cluster
	looked  int64
	total   int64

	resumed *keyToken // to be compared with the first snapshot
}

func (w *keyWalk) progress() Progress { return Progress{w.looked, w.total} }

// run works in rounds: it asks the primaries, judges the parts that are done, plans the rest, and scans
// it.
func (w *keyWalk) run(ctx context.Context, job job, each func(*page) (bool, error)) error {
	var waited, pause time.Duration
	for restarts := 0; ; {
		now, err := w.takeSnapshot(ctx)
		if err != nil {
			return err
		}
		if err := w.compare(now); err != nil {
			return err
		}
		w.plan.settle(now)
		stuck := w.plan.extend(now)
		if len(w.plan.parts) == 0 {
			switch {
			case stuck.len() == 0:
				w.looked = w.total
				return nil
			case !w.begun && waited >= briefly:
				w.plan.covered.addAll(&stuck)
				continue
			case waited >= patience:
				return fmt.Errorf("%w: slots %s belong to nobody, or are on their way to a node that owns no slot yet, for %v", ErrUnsettled, stuck.String(), waited)
			}
		} else if w.begun || stuck.len() == 0 || waited >= briefly {
			if !w.begun {
				w.plan.covered.addAll(&stuck)
				w.begun, w.total, w.cluster = true, now.keys, now.cluster
			}
			replaced, left, err := w.scanParts(ctx, now, job, each)
			if err != nil || left {
				return err
			}
			if waited, pause = 0, 0; !replaced {
				continue
			}
			if restarts++; restarts > maxRestarts {
				return fmt.Errorf("%w: %d server processes were replaced by others meanwhile", ErrUnsettled, restarts)
			}
			continue
		}
		pause = min(max(leastPause, 2*pause), mostPause)
		waited += pause
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeSnapshot asks the primaries, and asks once more when one does not answer: by then another node may have
// taken its place.
func (w *keyWalk) takeSnapshot(ctx context.Context) (*snapshot, error) {
	now, err := takeSnapshot(ctx, w.client)
	if err != nil && ctx.Err() == nil && !refused(err) {
		now, err = takeSnapshot(ctx, w.client)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return now, err
}

// refused reports whether a server answered with an error that it will repeat.
func refused(err error) bool {
	_, ok := errors.AsType[redoubt.ServerError](err)
	return ok || errors.Is(err, errNameless) || errors.Is(err, errRing) || errors.Is(err, redoubt.ErrClosed)
}

// scanParts scans all parts of the plan, each on its own goroutine. It returns when they have ended: after
// the last page, after the first error, or after a break of the loop. replaced is set when a part met
// another server process than it began with.
func (w *keyWalk) scanParts(ctx context.Context, now *snapshot, job job, each func(*page) (bool, error)) (replaced, left bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	pages := make(chan page)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, p := range w.plan.parts {
		fetched, process := pages, p.process
		if job != nil {
			fetched = make(chan page) // the next is fetched while the job is done to one
			wg.Go(func() { work(ctx, job, process, fetched, pages) })
		}
		wg.Go(func() { w.fetch(ctx, now.nodes[p.node].conn, p, p.cursor, p.mark, process, fetched) })
	}
	snapshots := make(chan *snapshot)
	if w.cluster {
		wg.Go(func() { w.watchSnapshots(ctx, snapshots) })
	}
	for running := len(w.plan.parts); running > 0; {
		var p page
		select {
		case now := <-snapshots:
			for _, part := range w.plan.parts {
				if !part.ended {
					part.observe(now)
				}
			}
			continue
		case p = <-pages:
		case <-ctx.Done():
			return false, false, ctx.Err()
		}
		switch {
		case p.failed != nil:
			return false, false, p.failed
		case p.err != nil && (refused(p.err) || ctx.Err() != nil):
			return false, false, p.err
		case p.err != nil:
			if !w.hasGone(ctx, p.part) {
				return false, false, p.err
			}
			p.part.process, replaced = "", true // the others go on
			running--
			continue
		case p.process != p.part.process:
			p.part.process, replaced = "", true
			running--
			continue
		}
		p.part.mark = p.mark
		if took, err := each(&p); err != nil || !took {
			return false, true, err
		}
		p.part.cursor, p.part.mark, p.part.ended = p.next, nil, p.next == "0"
		w.looked += int64(w.count)
		if p.part.ended {
			running--
		}
	}
	return replaced, false, nil
}

// watchSnapshots sends how the primaries describe themselves, about every snapshotInterval.
func (w *keyWalk) watchSnapshots(ctx context.Context, snapshots chan<- *snapshot) {
	for wait(ctx, snapshotInterval) == nil {
		now, err := takeSnapshot(ctx, w.client)
		if err != nil {
			continue // the pages or the next round will say so
		}
		select {
		case snapshots <- now:
		case <-ctx.Done():
		}
	}
}

// work does the job to the pages of a part. It skips the pages of another process. It returns after the
// last page.
func work(ctx context.Context, job job, process string, fetched <-chan page, pages chan<- page) {
	for {
		var p page
		select {
		case p = <-fetched:
		case <-ctx.Done():
			return
		}
		last := p.err != nil || p.next == "0" || p.process != process
		if p.err == nil && p.process == process && len(p.mark.left()) > 0 {
			p.result, p.failed = job(ctx, p.mark.left())
		}
		select {
		case pages <- p:
		case <-ctx.Done():
			return
		}
		if last || p.failed != nil {
			return
		}
	}
}

// hasGone reports whether the node of a part that ended with an error is no longer a primary, or is
// another process.
func (w *keyWalk) hasGone(ctx context.Context, p *part) bool {
	now, err := takeSnapshot(ctx, w.client)
	if err != nil {
		return false
	}
	n := now.nodes[p.node]
	return n == nil || n.process != p.process
}

// wanted returns the keys of a page that belong to its part. On a cluster, a key that is moving is yielded
// by the scan of its destination.
func (w *keyWalk) wanted(part *part, page []string) []string {
	if !w.cluster {
		return page
	}
	keys := page[:0]
	for _, key := range page {
		if slot := int(keyslot.Of([]byte(key))); part.own.has(slot) || part.rest.has(slot) {
			keys = append(keys, key)
		}
	}
	return keys
}

// fetch sends the pages of a part from cursor, and a mark there, on, until the last page, an error, or a
// reply of another process. Only the receiver changes the part.
func (w *keyWalk) fetch(ctx context.Context, conn redoubt.Conn, part *part, cursor string, mark *mark, process string, pages chan<- page) {
	if cursor == "" {
		cursor = "0"
	}
	args := []string{"", "COUNT", ""}
	if w.query.Match != "" {
		args = append(args, "MATCH", w.query.Match)
	}
	if w.query.Type != "" {
		args = append(args, "TYPE", w.query.Type)
	}
	for {
		count := mark.count(w.count)
		args[0], args[2] = cursor, strconv.Itoa(count)
		p, items := scanPage(ctx, conn, args)
		p.part, p.mark = part, markOf(w.wanted(part, items), count, mark)
		mark = nil
		select {
		case pages <- p:
		case <-ctx.Done():
			return
		}
		if p.err != nil || p.next == "0" || p.process != process {
			return
		}
		cursor = p.next
	}
}

// scanPage asks for one page and then for the run_id. Both use one connection, so the process that tells
// its run_id has also sent the page, unless one of them had to be sent again. A process that comes between
// is detected with the next page, or by the snapshot after the last one.
func scanPage(ctx context.Context, conn redoubt.Conn, args []string) (p page, items []string) {
	replies := conn.Pipeline(ctx, []redoubt.Cmd{
		{Name: "SCAN", Args: append([]string(nil), args...), Flags: redoubt.ReadOnly}, infoServer,
	})
	reply, err := replies[0].Array()
	if err == nil && len(reply) != 2 {
		err = fmt.Errorf("scan: reply of SCAN has %d elements, want 2", len(reply))
	}
	if err != nil {
		return page{err: err}, nil
	}
	if p.next, p.err = (redoubt.Reply{Val: reply[0]}).Text(); p.err != nil {
		return p, nil
	}
	if items, p.err = texts(reply[1]); p.err != nil {
		return p, nil
	}
	info, err := replies[1].Text()
	if p.err = err; err == nil {
		p.process = infoField(info, "run_id")
	}
	return p, items
}
