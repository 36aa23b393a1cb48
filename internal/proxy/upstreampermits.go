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
// commands whose replies may have any size are rationed: few of them are isolated at once.
const (
	maxRationed  = 4                      // rationed commands that are isolated at once
	blockedAfter = time.Second            // of congestion
	recentTime   = 10 * time.Second       // see RecentlyBlocked and RecentlyHuge
	yieldTime    = 100 * time.Millisecond // before each read of a large reply that yields
	hugeReply    = 8 << 20                // bytes; two isolated replies of that size at once begin the ration
	fullAt       = 512                    // commands under way on the shared connection
)

// A permitError says that a command was not sent because it got no permit in time.
type permitError struct {
	most    int // commands at once
	timeout time.Duration
}

func (e permitError) Error() string {
	return fmt.Sprintf("%d large commands are under way, and this one got no permit within %s", e.most, e.timeout)
}

// RecentlyBlocked reports whether commands waited long behind a large reply on the shared connection a
// short time ago, so that a command whose reply may be large should be isolated.
func (u *Upstream) RecentlyBlocked() bool { return u.blocked.lasts() }

// RecentlyHuge reports whether a very large reply arrived a short time ago, so that a command that reads
// much at once should be isolated.
func (u *Upstream) RecentlyHuge() bool { return u.hugeSeen.lasts() }

// Full reports whether many commands are under way on the shared connection, so that a command
// whose reply may be large should be isolated: many such replies would be on their way before the
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

// A recently is a state that ends after recentTime.
type recently struct{ until atomic.Int64 } // ns since 1970; 0: it has ended

func (s *recently) begin() { s.until.Store(time.Now().Add(recentTime).UnixNano()) }

func (s *recently) lasts() bool {
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

// acquire waits for a permit. A rationed command needs one of the ration first.
func (u *Upstream) acquire(wait func() context.Context, timeout time.Duration, ration bool) error { //nolint:revive // the parameter is what the command is
	if ration {
		began := time.Now()
		if err := u.acquireOf(&u.isolation.ration, wait, timeout); err != nil {
			return err
		}
		if timeout > 0 {
			timeout = max(timeout-time.Since(began), 1)
		}
	}
	err := u.acquireOf(&u.isolation.permits, wait, timeout)
	if err != nil && ration {
		u.isolation.mu.Lock()
		u.isolation.ration.release()
		u.isolation.mu.Unlock()
	}
	return err
}

// acquireOf waits for one kind of permit.
func (u *Upstream) acquireOf(of *permits, wait func() context.Context, timeout time.Duration) error {
	u.isolation.mu.Lock()
	mine := of.acquire()
	u.isolation.mu.Unlock()
	if mine == nil {
		return nil
	}
	ctx := wait()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, permitError{of.most, timeout})
		defer cancel()
	}
	return u.await(ctx, of, mine)
}

// permits bound the commands that are isolated at once. Others wait, first come, first served. The mu of
// isolation guards them.
type permits struct {
	most    int
	taken   int
	waiting []chan struct{}
}

// acquire takes a permit and returns nil, or returns a channel that is closed when the permit has come.
func (p *permits) acquire() (mine chan struct{}) {
	if p.taken < p.most {
		p.taken++
		return nil
	}
	mine = make(chan struct{})
	p.waiting = append(p.waiting, mine)
	return mine
}

// release returns a permit: to the first waiter, if there is one.
func (p *permits) release() {
	if len(p.waiting) == 0 {
		p.taken--
		return
	}
	close(p.waiting[0])
	p.waiting = slices.Delete(p.waiting, 0, 1)
}

// await waits for a permit.
func (u *Upstream) await(ctx context.Context, of *permits, mine chan struct{}) (err error) {
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-u.ctx.Done():
		err = errClosed
	}
	s := &u.isolation
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(of.waiting, mine); i >= 0 {
		of.waiting = slices.Delete(of.waiting, i, i+1)
	} else {
		of.release() // the permit came meanwhile: pass it on
	}
	return err
}
