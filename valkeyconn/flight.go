package valkeyconn

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/redoubt-go/redoubt"
)

// A flight is the commands of one call. Its caller may leave while the goroutine that runs it waits for a
// reply.
type flight struct {
	gone chan struct{} // closed when the caller leaves

	mu    sync.Mutex // guards left, and reply, done, asked and mayHaveRun of the items
	left  bool
	items []item
}

func newFlight(n int) *flight {
	return &flight{gone: make(chan struct{}), items: make([]item, n)}
}

// leave ends the flight for its caller, whose ctx ended with err. A command that was not sent never will be.
func (f *flight) leave(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = true
	close(f.gone)
	for i := range f.items {
		it := &f.items[i]
		if it.done {
			continue
		}
		it.done = true
		it.reply.Err = err
		if (it.asked || it.mayHaveRun) && it.flags&redoubt.ReadOnly == 0 {
			it.reply.Err = redoubt.UnknownOutcome(err)
		}
	}
}

// An item is one command on its way.
type item struct {
	script *redoubt.Script
	flags  redoubt.Flags
	words  []string // what is sent: copies, which the caller can't change
	keyPos int      // of the first key in words, 0 without keys
	route  string   // the key that routes the command; "" for any primary

	reply      redoubt.Reply
	done       bool
	asked      bool // in this attempt valkey-go has asked whether to send it
	mayHaveRun bool // in an earlier attempt, whose reply was lost

	// These belong to the goroutine that runs the item.
	err        error // of the last attempt
	node       *node // of a cluster; nil when valkey-go routes the command
	redirected bool  // send by way of the client of the cluster, which follows redirects
	missed     bool  // the node doesn't know the script
	eval       bool  // words hold the script's text, not its digest
	several    bool  // a pool may send it to several servers in parts
	resends    int8
	loads      int8
	closed     int8
}

func (it *item) init(cmd redoubt.Cmd) {
	it.script, it.flags, it.route = cmd.Script, cmd.Flags, cmd.At
	it.several = cmd.Script == nil && len(cmd.Keys) > 1
	words := make([]string, 0, len(cmd.Keys)+len(cmd.Args)+3)
	if cmd.Script != nil {
		words = append(words, "EVALSHA", cmd.Script.Digest(), strconv.Itoa(len(cmd.Keys)))
	} else {
		first, second, two := strings.Cut(cmd.Name, " ")
		words = append(words, first)
		if two {
			words = append(words, second)
		}
	}
	if len(cmd.Keys) > 0 {
		it.route, it.keyPos = cmd.Keys[0], len(words)
	}
	words = append(words, cmd.Keys...)
	it.words = append(words, cmd.Args...)
}

// sendable reports whether valkey-go can build the command. It panics for the others.
func (it *item) sendable() bool {
	return it.words[0] != "" && !strings.HasSuffix(strings.ToUpper(it.words[0]), "SUBSCRIBE")
}

// build makes the command. It has none of the marks by which valkey-go knows a command that may be sent
// again, so only this package sends it again.
func (it *item) build(b valkey.Builder) valkey.Completed {
	if it.eval && it.words[0] == "EVALSHA" {
		it.words[0], it.words[1] = "EVAL", it.script.Source()
	}
	head, rest := it.words, []string(nil)
	if it.keyPos > 0 {
		head, rest = it.words[:it.keyPos], it.words[it.keyPos+1:]
	}
	a := b.Arbitrary(head...)
	if it.keyPos > 0 {
		// valkey-go panics when the keys are of different slots, so it gets to know one.
		a = a.Keys(it.words[it.keyPos]).Args(rest...)
	}
	if it.flags&redoubt.Blocking != 0 {
		return a.Blocking()
	}
	// With DisableAutoPipelining a command goes by a connection of its own otherwise, and a pipeline that
	// breaks loses the replies that came.
	return a.Build().ToPipe()
}

// A gate is the context of one attempt as valkey-go sees it. valkey-go asks Err before it puts a command on a
// connection, and afterwards, only if the connection works, for the deadline or Done. That tells a command
// that was never sent from one whose reply was lost, and keeps a command from being sent whose caller has left.
//
// A gate has no deadline: valkey-go closes a connection when a call's deadline passes, for all its users.
type gate struct {
	context.Context //nolint:containedctx // it is one
	flight          *flight
	items           []*item

	asked, queued bool // guarded by flight.mu
}

var errLeft = errors.New("valkeyconn: the caller left before the command was sent")

func (g *gate) Err() error {
	g.flight.mu.Lock()
	defer g.flight.mu.Unlock()
	if g.flight.left {
		return errLeft
	}
	if !g.asked {
		g.asked = true
		for _, it := range g.items {
			it.asked = true
		}
	}
	return nil
}

func (g *gate) Done() <-chan struct{} {
	g.mark()
	return g.flight.gone
}

func (g *gate) Deadline() (time.Time, bool) {
	g.mark()
	return time.Time{}, false
}

func (g *gate) mark() {
	g.flight.mu.Lock()
	defer g.flight.mu.Unlock()
	g.queued = g.queued || g.asked // before Err, valkey-go only connects
}

// state reports whether the client has asked whether to send, and whether the attempt may have reached a server.
func (g *gate) state() (asked, queued bool) {
	g.flight.mu.Lock()
	defer g.flight.mu.Unlock()
	return g.asked, g.queued
}

// notRun notes that the attempt was refused or never sent.
func (f *flight) notRun(it *item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	it.asked = false
}

// lost notes that the attempt's reply was lost.
func (f *flight) lost(it *item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	it.asked, it.mayHaveRun = false, true
}

func (f *flight) finish(it *item, r redoubt.Reply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !it.done {
		it.done, it.reply = true, r
	}
}

// fail finishes the item with err, which ended the attempts.
func (f *flight) fail(it *item, err error) {
	if it.mayHaveRun && it.flags&redoubt.ReadOnly == 0 {
		err = redoubt.UnknownOutcome(err)
	}
	f.finish(it, redoubt.Reply{Err: err})
}
