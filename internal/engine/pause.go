package engine

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// pausing is what CLIENT PAUSE asked for. It holds the sessions of a server's clients: those that call [Session.Run].
// Commands that already wait go on.
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

// held returns the pause that holds a command back, or nil.
func (s *Session) held(args [][]byte) *pause {
	p := s.e.pausing.now.Load()
	if p == nil || len(args) == 0 {
		return nil
	}
	if time.Until(p.until) <= 0 {
		s.e.pausing.ran(p)
		return nil
	}
	cmd := s.find(args[0])
	if cmd == nil {
		return nil
	}
	if cmd = cmd.resolve(args); cmd == nil || !cmd.Takes(len(args)) || strings.HasPrefix(cmd.Name, "client|") {
		return nil // it is refused; or it may be CLIENT UNPAUSE
	}
	if p.all || s.mayWrite(cmd, args) {
		return p
	}
	return nil
}

// mayWrite reports whether a command, or one that EXEC runs, may change keys or publish a message.
func (s *Session) mayWrite(cmd *command, args [][]byte) bool {
	if cmd.Name == "exec" && s.inMulti {
		for _, q := range s.queue {
			if s.mayWrite(q.cmd, q.args) {
				return true
			}
		}
		return false
	}
	if cmd.flags&flagScript == 0 {
		return cmd.flags&(flagWrite|flagMayReplicate) != 0
	}
	return !s.e.onlyReads(cmd, args)
}

// awaitPause waits while a pause holds a command back. It reports false when ctx ended first.
func (s *Session) awaitPause(ctx context.Context, args [][]byte) bool {
	for {
		p := s.held(args)
		if p == nil {
			return true
		}
		if !s.standBy(ctx, p) {
			return false
		}
	}
}

func (s *Session) standBy(ctx context.Context, p *pause) bool {
	s.e.stats.blocked.Add(1)
	defer s.e.stats.blocked.Add(-1)
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
	c.ok()
}
