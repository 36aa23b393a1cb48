package engine

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// pausing is what CLIENT PAUSE asked for. A server asks [Session.Held] before it runs a client's command, and then
// waits. Commands that already wait go on, and so do the calls of a Go program.
type pausing struct {
	now atomic.Pointer[pause] // nil: none
	mu  sync.Mutex            // for changes
}

// A pause ends at a time, or earlier by CLIENT UNPAUSE. A later CLIENT PAUSE replaces it.
type pause struct {
	until time.Time
	all   bool          // or only what may write
	over  chan struct{} // closed when it ended or was replaced
}

// begin pauses clients. An earlier pause may become longer and stricter, but not the opposite.
func (p *pausing) begin(d time.Duration, all bool) { //nolint:revive // the parameter is the state
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &pause{until: time.Now().Add(d), all: all, over: make(chan struct{})}
	if was := p.now.Load(); was != nil {
		if time.Until(was.until) > 0 {
			next.all = next.all || was.all
			if was.until.After(next.until) {
				next.until = was.until
			}
		}
		defer close(was.over)
	}
	p.now.Store(next)
}

// active returns the pause that is on, or nil. Keys don't expire meanwhile, as that would write.
func (p *pausing) active() *pause {
	if now := p.now.Load(); now != nil && time.Until(now.until) > 0 {
		return now
	}
	return nil
}

func (p *pausing) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if was := p.now.Swap(nil); was != nil {
		close(was.over)
	}
}

// ran forgets a pause whose time is over.
func (p *pausing) ran(was *pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.CompareAndSwap(was, nil) {
		close(was.over)
	}
}

// Holds reports whether commands may have to wait, because of CLIENT PAUSE or a slow script.
func (s *Session) Holds() bool { return s.e.pausing.now.Load() != nil || s.e.scripts.slow.Load() > 0 }

// held returns the pause that holds a command back, or nil. Without args it is a command of the caller's own, which
// writes or not.
func (s *Session) held(args [][]byte, writes bool) *pause { //nolint:revive // it says what the command does
	p := s.e.pausing.now.Load()
	if p == nil {
		return nil
	}
	if time.Until(p.until) <= 0 {
		s.e.pausing.ran(p)
		return nil
	}
	if args != nil {
		cmd := s.runnable(args)
		if cmd == nil || strings.HasPrefix(cmd.Name, "client|") {
			return nil // it is refused; or it may be CLIENT UNPAUSE
		}
		writes = writes || s.mayWrite(cmd, args)
	}
	if p.all || writes {
		return p
	}
	return nil
}

// Held reports whether CLIENT PAUSE holds a command of Redis back. writes is for EXEC: whether the transaction
// does. Without args it is a command of the caller's own, which writes or not.
func (s *Session) Held(args [][]byte, writes bool) bool { return s.held(args, writes) != nil }

// MayWrite reports whether a command may change keys or publish a message.
func (s *Session) MayWrite(args [][]byte) bool {
	cmd := s.runnable(args)
	return cmd != nil && s.mayWrite(cmd, args)
}

// AwaitPause waits while a command is held. It reports false when ctx ended first.
func (s *Session) AwaitPause(ctx context.Context, args [][]byte, writes bool) bool {
	for p := s.held(args, writes); p != nil; p = s.held(args, writes) {
		if !s.e.standBy(ctx, p) {
			return false
		}
	}
	return true
}

func (s *Session) mayWrite(cmd *command, args [][]byte) bool {
	if cmd.flags&flagScript == 0 {
		return cmd.flags&(flagWrite|flagMayReplicate) != 0
	}
	return !s.e.onlyReads(cmd, args)
}

func (e *Engine) standBy(ctx context.Context, p *pause) bool {
	e.stats.blocked.Add(1)
	defer e.stats.blocked.Add(-1)
	timer := time.NewTimer(time.Until(p.until))
	defer timer.Stop()
	select {
	case <-p.over:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// cmdClientPause answers CLIENT PAUSE milliseconds [WRITE | ALL].
func cmdClientPause(c *call) {
	all := true
	if len(c.args) == 4 {
		switch {
		case is(c.args[3], "write"):
			all = false
		case !is(c.args[3], "all"):
			c.err("ERR CLIENT PAUSE mode must be WRITE or ALL")
			return
		}
	} else if len(c.args) > 4 {
		c.syntax()
		return
	}
	ms, ok := parseInt(c.args[2])
	switch {
	case !ok:
		c.err("ERR timeout is not an integer or out of range")
	case ms < 0:
		c.err("ERR timeout is negative")
	case ms > int64(maxPause/time.Millisecond):
		c.err("ERR timeout is out of range")
	default:
		c.e.pausing.begin(time.Duration(ms)*time.Millisecond, all)
		c.ok()
	}
}

// maxPause is the longest time that a Duration holds, with room for what is added.
const maxPause = 100 * 365 * 24 * time.Hour

func cmdClientUnpause(c *call) {
	c.e.pausing.end()
	c.e.sweeper.wake(c.e, c.time())
	c.ok()
}
