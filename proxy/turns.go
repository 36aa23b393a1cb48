package proxy

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A command that was sent on the shared connection before a large reply arrived waits behind that
// reply. If clients keep asking for large replies, the server keeps making them instead of writing
// what is left of the first, and the wait has no end. So while large replies hold up others,
// commands whose replies may have any size are rationed: few of them are apart at once.
const (
	maxRationed  = 4                      // rationed commands that are apart at once
	swampedAfter = time.Second            // of congestion
	swampedFor   = 10 * time.Second       // after such a congestion
	yieldTime    = 100 * time.Millisecond // between two reads of a large reply that yields
	hugeReply    = 8 << 20                // bytes; two such replies at once begin the ration
)

// A crowdedError says that a command was not sent because its turn did not come in time.
type crowdedError struct {
	most    int // commands at once
	timeout time.Duration
}

func (e crowdedError) Error() string {
	return fmt.Sprintf("%d large commands are under way, and the turn of this one has not come within %s", e.most, e.timeout)
}

// Swamped reports whether commands waited long behind large replies on the shared connection a
// short time ago, so that a command whose reply may have any size should go apart.
func (u *Upstream) Swamped() bool {
	until := u.swamped.Load()
	if until == 0 {
		return false
	}
	if time.Now().UnixNano() < until {
		return true
	}
	u.swamped.CompareAndSwap(until, 0)
	return false
}

// turn waits for a turn, and for one of the ration first if it takes one.
func (u *Upstream) turn(wait func() context.Context, timeout time.Duration, ration bool) error { //nolint:revive // the parameter is what the command is
	s := &u.sides
	var ctx context.Context
	for _, of := range []*turns{&s.ration, &s.turns} {
		if of == &s.ration && !ration {
			continue
		}
		s.mu.Lock()
		mine := of.turn()
		s.mu.Unlock()
		if mine == nil {
			continue
		}
		if ctx == nil {
			ctx = wait()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, timeout, crowdedError{of.most, timeout})
				defer cancel()
			}
		}
		if err := u.await(ctx, of, mine); err != nil {
			if ration && of == &s.turns {
				s.mu.Lock()
				s.ration.next()
				s.mu.Unlock()
			}
			return err
		}
	}
	return nil
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
