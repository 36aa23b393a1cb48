package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/redoubt-go/redoubt"
)

// An asyncPipeline is a pipeline, or the rest of one, that runs in a goroutine of its own, so that
// its caller can leave when its context ends. It then stops after the command that is running.
type asyncPipeline struct {
	e    *Engine
	cmds []redoubt.Cmd
	done chan struct{}

	mu      sync.Mutex
	left    bool // the caller is gone
	begun   int  // commands begun
	ended   int  // of these, with a reply or a wait
	replies []redoubt.Reply
	waiting []waiter
}

// A waiter is a command of a pipeline that waits.
type waiter struct {
	i    int
	l    *callSession
	wait *Wait
}

// runAsync fills replies, and returns when ctx ends.
func (e *Engine) runAsync(ctx context.Context, cmds []redoubt.Cmd, replies []redoubt.Reply) {
	// The caller may use its slices again once it has left.
	a := &asyncPipeline{e: e, cmds: slices.Clone(cmds), replies: make([]redoubt.Reply, len(cmds)), done: make(chan struct{})}
	for i := range a.cmds {
		c := &a.cmds[i]
		c.Keys, c.Args = slices.Clone(c.Keys), slices.Clone(c.Args)
	}
	if !e.background.start(a.run) {
		for i := range replies {
			replies[i].Err = ErrClosed
		}
		return
	}
	select {
	case <-a.done:
	case <-ctx.Done():
	}
	a.mu.Lock()
	a.left = true
	copy(replies, a.replies[:a.ended])
	for i := a.ended; i < len(cmds); i++ {
		err := ctx.Err()
		if i < a.begun && cmds[i].Flags&redoubt.ReadOnly == 0 {
			err = redoubt.UnknownOutcome(err)
		}
		replies[i].Err = err
	}
	waiting := a.waiting
	a.mu.Unlock()
	for _, w := range waiting {
		replies[w.i] = w.l.await(ctx, w.wait)
	}
}

func (a *asyncPipeline) run() {
	defer close(a.done)
	l, end := a.e.takeSession(), uint64(0)
	for i := range a.cmds {
		a.mu.Lock()
		if a.left {
			a.mu.Unlock()
			break
		}
		a.begun++
		a.mu.Unlock()
		wait, _ := l.run(&a.cmds[i], false)
		var r redoubt.Reply
		if wait == nil {
			r = reply(l.out)
		}
		a.mu.Lock()
		switch {
		case wait == nil:
			a.replies[i] = r
		case a.left: // the caller is gone
			wait.Cancel()
			a.e.putSession(l)
			l = a.e.takeSession()
		default:
			a.waiting = append(a.waiting, waiter{i, l, wait})
			l = a.e.takeSession()
		}
		if end = max(end, l.depends()); end == 0 {
			a.ended++
		}
		a.mu.Unlock()
	}
	if end != 0 { // from the first reply that depends on the disk on
		err := a.e.log.Wait(end)
		a.mu.Lock()
		for i := a.ended; i < a.begun && err != nil; i++ {
			a.replies[i] = unsaved(&a.cmds[i], err)
		}
		a.ended = a.begun
		a.mu.Unlock()
	}
	a.e.putSession(l)
}
