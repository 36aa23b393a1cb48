package proxy

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// A command that was sent on the shared connection before a large reply arrived waits behind that
// reply. If clients keep asking for large replies, the server keeps making them instead of writing
// what is left of the first, and the wait has no end. So while large replies hold up others,
// commands whose replies may have any size are rationed: few of them are apart at once.
const (
	maxRationed  = 4                      // rationed commands that are apart at once
	swampedAfter = time.Second            // of congestion
	spellTime    = 10 * time.Second       // for which an upstream stays swamped or alarmed
	yieldTime    = 100 * time.Millisecond // before each read of a large reply that yields
	hugeReply    = 8 << 20                // bytes, which alarm; two such replies apart at once begin the ration
	fullAt       = 512                    // commands under way on the shared connection
)

// A crowdedError says that a command was not sent because its turn did not come in time.
type crowdedError struct {
	most    int // commands at once
	timeout time.Duration
}

func (e crowdedError) Error() string {
	return fmt.Sprintf("%d large commands are under way, and the turn of this one has not come within %s", e.most, e.timeout)
}

// Swamped reports whether commands waited long behind a large reply on the shared connection a
// short time ago, so that a command whose reply may be large should go apart.
func (u *Upstream) Swamped() bool { return u.swamped.lasts() }

// Alarmed reports whether a very large reply arrived a short time ago, so that a command that reads
// much at once should go apart.
func (u *Upstream) Alarmed() bool { return u.alarmed.lasts() }

// Full reports whether many commands are under way on the shared connection, so that a command
// whose reply may be large should go apart: many such replies would be on their way before the
// first of them has shown how large they are.
func (u *Upstream) Full() bool {
	l := u.conn.Load()
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests > l.traffic.Responses+fullAt
}

// A spell is a state that ends by itself.
type spell struct{ until atomic.Int64 } // ns since 1970; 0: it has ended

func (s *spell) begin() { s.until.Store(time.Now().Add(spellTime).UnixNano()) }

func (s *spell) lasts() bool {
	until := s.until.Load()
	if until == 0 {
		return false
	}
	if time.Now().UnixNano() < until {
		return true
	}
	s.until.CompareAndSwap(until, 0)
	return false
}

// turn waits for a turn, and for one of the ration first if it takes one.
func (u *Upstream) turn(wait func() context.Context, timeout time.Duration, ration bool) error { //nolint:revive // the parameter is what the command is
	if ration {
		began := time.Now()
		if err := u.turnOf(&u.sides.ration, wait, timeout); err != nil {
			return err
		}
		if timeout > 0 {
			timeout = max(timeout-time.Since(began), 1)
		}
	}
	err := u.turnOf(&u.sides.turns, wait, timeout)
	if err != nil && ration {
		u.sides.mu.Lock()
		u.sides.ration.next()
		u.sides.mu.Unlock()
	}
	return err
}

// turnOf waits for one kind of turn.
func (u *Upstream) turnOf(of *turns, wait func() context.Context, timeout time.Duration) error {
	u.sides.mu.Lock()
	mine := of.turn()
	u.sides.mu.Unlock()
	if mine == nil {
		return nil
	}
	ctx := wait()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, crowdedError{of.most, timeout})
		defer cancel()
	}
	return u.await(ctx, of, mine)
}

// turns are given to a number of commands at once. Others wait, first come, first served. The mu of
// sides guards them.
type turns struct {
	most    int
	taken   int
	waiting []chan struct{}
}

// turn takes a turn and returns nil, or returns what is closed when the turn has come.
func (t *turns) turn() (mine chan struct{}) {
	if t.taken < t.most {
		t.taken++
		return nil
	}
	mine = make(chan struct{})
	t.waiting = append(t.waiting, mine)
	return mine
}

// next gives a turn back: to the first that waits, if there is one.
func (t *turns) next() {
	if len(t.waiting) == 0 {
		t.taken--
		return
	}
	close(t.waiting[0])
	t.waiting = slices.Delete(t.waiting, 0, 1)
}

// await waits for a turn.
func (u *Upstream) await(ctx context.Context, of *turns, mine chan struct{}) (err error) {
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-u.ctx.Done():
		err = errClosed
	}
	s := &u.sides
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(of.waiting, mine); i >= 0 {
		of.waiting = slices.Delete(of.waiting, i, i+1)
	} else {
		of.next() // the turn came meanwhile: pass it on
	}
	return err
}
