package server

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"
)

// A watchdog takes the lead away from a turn that lasts from one tick to the next. It sleeps while only quick commands are run: a tick costs up to 50 µs,
// as the thread that waits for it is also woken by what comes for the leader.
type watchdog struct {
	awake atomic.Bool
	call  chan struct{}
}

const (
	tick     = time.Millisecond
	lastTick = 4 // without a command to guard, before it sleeps
)

// guard is called before a command that may take long.
func (p *poller) guard() {
	p.guarded.Add(1)
	p.srv.watchdog.wake()
}

func (w *watchdog) wake() {
	if !w.awake.Load() && w.awake.CompareAndSwap(false, true) {
		w.call <- struct{}{}
	}
}

// watch is the watchdog, until the server ends.
func (s *Server) watch() {
	t := time.NewTicker(tick)
	t.Stop()
	for {
		select {
		case <-s.unwatch:
			return
		case <-s.watchdog.call:
		}
		t.Reset(tick)
		for idle := 0; idle < lastTick; idle++ {
			<-t.C
			if s.look() {
				idle = 0
			}
		}
		t.Stop()
		s.watchdog.awake.Store(false)
		if s.look() {
			s.watchdog.wake()
		}
	}
}

// look reports whether there was something to guard since it was called last.
func (s *Server) look() (busy bool) {
	for _, p := range s.pollers {
		role, guarded := p.role.Load(), p.guarded.Load()
		if role%2 == 1 && role == p.watched.role {
			p.take(role)
		}
		busy = busy || guarded != p.watched.guarded || role%2 == 1
		p.watched.role, p.watched.guarded = role, guarded
	}
	return busy
}

// slowCommands remembers a few commands that took long, so that nobody waits for them
// the next time.
type slowCommands struct {
	any   atomic.Bool
	seed  maphash.Seed
	marks [16]atomic.Uint64
}

// A command is slow from these bounds on. To step aside for a quicker one would take as long.
const (
	slowAfter = 200 * time.Microsecond
	slowReply = 1 << 20 // bytes of a reply
)

// mark tells commands apart by their name and first argument, which is a key, a
// pattern or the digest of a script.
func (s *slowCommands) mark(args [][]byte) (place *atomic.Uint64, mark uint64) {
	mark = maphash.Bytes(s.seed, args[0])
	if len(args) > 1 {
		mark = bits.RotateLeft64(mark, 1) ^ maphash.Bytes(s.seed, args[1])
	}
	return &s.marks[mark%uint64(len(s.marks))], mark
}

func (s *slowCommands) has(args [][]byte) bool {
	if !s.any.Load() {
		return false
	}
	place, mark := s.mark(args)
	return place.Load() == mark
}

func (s *slowCommands) add(args [][]byte) {
	place, mark := s.mark(args)
	place.Store(mark)
	s.any.Store(true)
}

func (s *slowCommands) forget(args [][]byte) {
	place, mark := s.mark(args)
	place.CompareAndSwap(mark, 0)
	for i := range s.marks {
		if s.marks[i].Load() != 0 {
			return
		}
	}
	s.any.Store(false)
}
