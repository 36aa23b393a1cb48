package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/lock"
)

// terms checks the leaders of an election, each when it begins.
type terms struct {
	tb testing.TB

	mu  sync.Mutex
	all []*lock.Lease
}

// begin is called in the function of Elect.
func (s *terms) begin(ctx context.Context) *lock.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease := lock.FromContext(ctx)
	for _, before := range s.all {
		if before.Err() == nil {
			s.tb.Errorf("the leader with token %d begins, and the one with token %d still leads", lease.Token(), before.Token())
		}
		if before.Token() >= lease.Token() {
			s.tb.Errorf("token %d after %d", lease.Token(), before.Token())
		}
	}
	s.all = append(s.all, lease)
	return lease
}

// Three candidates lead one after the other, each until it resigns.
//
// Promise: The lead of an elected process ends, with the context of its function, before the next
// one is elected, with a larger token.
func TestElect(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		const n = 3
		led := terms{tb: t}
		errs := make(chan error, n)
		for i := range n {
			label := fmt.Sprint("candidate ", i)
			m := e.mutex(e.newClient(), lock.Options{Label: label})
			go func() {
				errs <- m.Elect(t.Context(), t.Name(), func(ctx context.Context) error {
					lease := led.begin(ctx)
					info, err := m.Info(ctx, t.Name())
					if err != nil || len(info.Holders) != 1 || info.Holders[0].Label != label || info.Holders[0].Token != lease.Token() {
						t.Errorf("%s leads with token %d, and Info says %+v (%v)", label, lease.Token(), info, err)
					}
					return ctx.Err()
				})
			}()
		}
		for range n {
			must(t, <-errs)
		}
		if len(led.all) != n {
			t.Errorf("%d terms, want %d", len(led.all), n)
		}
	})
}

// The lead is taken away. The candidate that waits leads, and after it the first one again.
//
// Promise: A candidate that loses the lead campaigns again, until its function returns in the lead or
// its ctx ends.
func TestElectAgainAfterALoss(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		first := e.mutex(e.newClient(), lock.Options{TTL: time.Minute})
		second := e.mutex(e.newClient(), lock.Options{})
		leads, lost := make(chan *lock.Lease, 1), make(chan error, 1)
		firstDone, secondDone, resign := make(chan error, 1), make(chan error, 1), make(chan struct{})
		failed := errors.New("it failed in the lead")
		go func() {
			terms := 0
			firstDone <- first.Elect(t.Context(), t.Name(), func(ctx context.Context) error {
				leads <- lock.FromContext(ctx)
				if terms++; terms == 2 {
					return failed
				}
				<-ctx.Done()
				lost <- context.Cause(ctx)
				return errors.New("it failed after the loss")
			})
		}()
		lease := <-leads
		go func() {
			secondDone <- second.Elect(t.Context(), t.Name(), func(ctx context.Context) error {
				<-resign
				return ctx.Err()
			})
		}()
		eventually(t, "the second waits", func() bool { return e.queued(t.Name()) == 1 })
		if released, err := second.ForceRelease(t.Context(), t.Name(), lease.Token()); err != nil || !released {
			t.Fatalf("ForceRelease: %v, %v", released, err)
		}
		lock.Renew([]*lock.Lease{lease})
		if cause := <-lost; !errors.Is(cause, lock.ErrTaken) {
			t.Errorf("the context of the lost lead ended with %v", cause)
		}
		close(resign)
		must(t, <-secondDone)
		if err := <-firstDone; !errors.Is(err, failed) {
			t.Fatalf("Elect returned %v, want what its function returned in its second term", err)
		}
		if again := <-leads; again.Token() <= lease.Token() {
			t.Errorf("token %d after %d", again.Token(), lease.Token())
		}
	})
}

// A leader is cut off, and so is a candidate before its first attempt. The one that reaches the server
// leads, not before the deadline of the first. Once the server is reachable again, the others lead.
//
// Promise: The lead of an elected process ends, with the context of its function, before the next
// one is elected, with a larger token.
//
// Promise: Candidates survive an outage of the server: they try again within a second.
func TestElectThroughAnOutage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		t.Parallel()
		const ttl = 2 * time.Second
		led := terms{tb: t}
		link := faultnet.New(t, e.Addr)
		behindLink := func() *lock.Mutex {
			c, err := redoubt.New(clienttest.Wrap(t, clienttest.Dial(t, link.Addr())), redoubt.Options{Prefix: e.Prefix, DownAfter: 500 * time.Millisecond})
			must(t, err)
			t.Cleanup(func() { _ = c.Close() })
			return e.mutex(c, lock.Options{TTL: ttl})
		}
		healed := make(chan struct{})
		leads, done := make(chan struct{}, 1), make(chan error, 3)
		campaign := func(m *lock.Mutex) {
			go func() {
				done <- m.Elect(t.Context(), t.Name(), func(ctx context.Context) error {
					led.begin(ctx)
					select {
					case <-healed:
						return nil
					default:
					}
					leads <- struct{}{}
					<-ctx.Done()
					if cause := context.Cause(ctx); !errors.Is(cause, lock.ErrNotHeld) {
						t.Errorf("the lead ended with %v", cause)
					}
					return ctx.Err()
				})
			}()
		}
		leader, candidate := behindLink(), behindLink()
		campaign(leader)
		<-leads
		link.Refuse()
		link.Cut()
		campaign(candidate)
		rest := e.mutex(e.newClient(), lock.Options{})
		must(t, rest.Elect(t.Context(), t.Name(), func(ctx context.Context) error {
			led.begin(ctx)
			close(healed)
			link.Accept()
			return ctx.Err()
		}))
		for range 2 {
			must(t, <-done)
		}
	})
}

func TestElectReturns(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		m := e.mutex(e.newClient(), lock.Options{})
		never := func(context.Context) error {
			t.Error("it leads")
			return errors.New("it leads")
		}
		if err := m.Elect(t.Context(), "", never); !errors.Is(err, redoubt.ErrInvalidName) {
			t.Errorf("with a bad name: %v", err)
		}
		must(t, e.Redis.Set(t.Context(), e.key("string"), "x", 0).Err())
		if err := m.Elect(t.Context(), "string", never); !errors.Is(err, redoubt.ErrWrongType) {
			t.Errorf("with a string in the lock's place: %v", err)
		}
		closed := e.newClient()
		must(t, closed.Close())
		if err := e.mutex(closed, lock.Options{}).Elect(t.Context(), t.Name(), never); !errors.Is(err, redoubt.ErrClosed) {
			t.Errorf("with a closed client: %v", err)
		}

		// In a lease that ctx carries it runs once.
		must(t, m.Do(t.Context(), t.Name(), func(ctx context.Context) error {
			return m.Elect(ctx, t.Name(), func(inner context.Context) error {
				if lock.FromContext(inner) != lock.FromContext(ctx) {
					t.Error("it leads by another lease than ctx has")
				}
				return nil
			})
		}))

		// A leader and a candidate whose ctx ends.
		ctx, cancel := context.WithCancel(t.Context())
		stopped := errors.New("stopped")
		err := m.Elect(ctx, t.Name(), func(work context.Context) error {
			candidate := make(chan error, 1)
			go func() { candidate <- m.Elect(ctx, t.Name(), never) }()
			eventually(t, "the candidate waits", func() bool { return e.queued(t.Name()) == 1 })
			cancel()
			if err := <-candidate; !errors.Is(err, context.Canceled) {
				t.Errorf("Elect of a candidate whose ctx ended: %v", err)
			}
			<-work.Done()
			return stopped
		})
		if !errors.Is(err, stopped) {
			t.Errorf("Elect of a leader whose ctx ended: %v, want the error of its function", err)
		}

		func() {
			defer func() { _ = recover() }()
			_ = m.Elect(t.Context(), t.Name(), func(context.Context) error { panic("boom") })
		}()
		must(t, try(t, m, t.Name()).Release(t.Context())) // it resigned each time
	})
}

// An observer sees each leader, once, and that nobody leads.
//
// Promise: An observer sees who leads within the period that it asks for.
func TestObserve(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		type state struct {
			info lock.Info
			err  error
		}
		link := faultnet.New(t, e.Addr)
		c, err := redoubt.New(clienttest.Wrap(t, clienttest.Dial(t, link.Addr())), redoubt.Options{Prefix: e.Prefix, DownAfter: 500 * time.Millisecond})
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan state, 1000)
		go func() {
			defer close(seen)
			for info, err := range e.mutex(c, lock.Options{}).Observe(ctx, t.Name(), 5*time.Millisecond) {
				seen <- state{info, err}
			}
		}()
		var last *lock.Info
		// until reads states until one is wanted.
		until := func(what string, ok func(s state) bool) {
			t.Helper()
			for s := range seen {
				if s.err != nil {
					last = nil
				} else {
					if last != nil && last.Mode == s.info.Mode && last.Token == s.info.Token {
						t.Errorf("twice the same: %+v", s.info)
					}
					last = &s.info
				}
				if ok(s) {
					return
				}
			}
			t.Fatalf("the loop ended before %s", what)
		}
		free := func(s state) bool { return s.err == nil && s.info.Mode == lock.Free }
		ledBy := func(label string, lease *lock.Lease) func(s state) bool {
			return func(s state) bool {
				if s.err != nil || s.info.Mode == lock.Free || s.info.Token != lease.Token() {
					return false
				}
				h := s.info.Holders[0]
				if h.Label != label || h.Token != lease.Token() || h.Since.UnixMicro() != lease.Token() {
					t.Errorf("the leader is %+v, want %s with token %d", h, label, lease.Token())
				}
				return true
			}
		}
		until("nobody leads", free)
		for _, label := range []string{"a", "b"} {
			m := e.mutex(e.newClient(), lock.Options{Label: label})
			must(t, m.Elect(t.Context(), t.Name(), func(ctx context.Context) error {
				until(label+" leads", ledBy(label, lock.FromContext(ctx)))
				return nil
			}))
		}
		until("nobody leads again", free)

		link.Refuse()
		link.Cut()
		until("an error", func(s state) bool { return s.err != nil })
		link.Accept()
		until("the state after the error", free)

		cancel()
		for s := range seen {
			if s.err != nil {
				t.Errorf("the loop ended with %v", s.err)
			}
		}
		must(t, c.Close())
		faults := map[string]func(yield func(lock.Info, error) bool){
			"client":       e.mutex(c, lock.Options{}).Observe(t.Context(), t.Name(), time.Second),
			"invalid name": e.mutex(e.newClient(), lock.Options{}).Observe(t.Context(), "", time.Second),
			"1ms":          e.mutex(e.newClient(), lock.Options{}).Observe(t.Context(), t.Name(), 0),
		}
		for what, observed := range faults {
			n := 0
			for _, err := range observed {
				if n++; err == nil {
					t.Errorf("%s: no error", what)
				}
			}
			if n != 1 {
				t.Errorf("%s: %d errors, want one", what, n)
			}
		}
	})
}
