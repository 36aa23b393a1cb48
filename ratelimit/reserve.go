package ratelimit

import (
	"context"
	"sync"
	"time"

	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// A Reservation has tokens that were taken ahead of time. Its holder acts after Delay, or
// cancels it. Its methods may be called by many goroutines at once.
type Reservation struct {
	// Decision tells whether the tokens are reserved. If they come later than
	// Options.MaxWait, or never, they are not, and RetryAfter is how long they take.
	Decision

	limiter *Limiter
	terms   *wire.Terms
	name    string
	n       int
	tats    string    // that it led to
	at      time.Time // of the process's monotonic clock

	mu struct {
		sync.Mutex
		id string // of the cancellation; empty before
	}
}

// Reserve takes n tokens of the limit called name, at least 1, ahead of time if
// necessary: the caller must not act before [Reservation.Delay] has passed. Reservations
// are served in the order in which they reach the server. Tokens that come later than
// Options.MaxWait, or never, are not reserved.
//
// A call is never sent twice. After an error that matches redoubt.ErrUnknownOutcome the
// tokens may have been taken. One round trip.
func (l *Limiter) Reserve(ctx context.Context, name string, n int) (*Reservation, error) {
	return l.reserve(ctx, name, n, l.maxWait)
}

func (l *Limiter) reserve(ctx context.Context, name string, n int, within time.Duration) (*Reservation, error) {
	cmd, err := l.wire.ReserveCmd(name, n, within)
	if err != nil {
		return nil, err
	}
	o, t, err := l.wire.Read(l.client.Do(ctx, cmd))
	if err != nil {
		return nil, err
	}
	return l.reservation(t, o, name, n), nil
}

// reservation returns the Reservation of a call that has just returned.
func (l *Limiter) reservation(t *wire.Terms, o wire.Outcome, name string, n int) *Reservation {
	r := &Reservation{limiter: l, terms: t, name: name, n: n, at: time.Now()}
	r.Decision = decision(t.Decide(o, o.First*int64(n), int64(n)))
	if r.Allowed {
		// The server computed the delay before its reply arrived, and the timer
		// begins afterwards: it is never early.
		r.at = r.at.Add(t.Delay(o))
		r.tats = t.TATs(o)
	}
	return r
}

// Delay returns how long the holder of the reservation still has to wait; 0 when it may
// act. It is meaningless if the tokens are not reserved. It sends nothing.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.at)) }

// Cancel gives the tokens back by the rule of golang.org/x/time/rate: none once the
// reservation's time has come, and none that later reservations depend on, because their
// times stand. It may be repeated, and is sent again after a lost reply. One round trip.
func (r *Reservation) Cancel(ctx context.Context) error {
	if !r.Allowed {
		return nil
	}
	cmd, err := r.limiter.wire.CancelCmd(r.name, r.id(), r.tats, r.terms.Args(nil, int64(r.n)))
	if err != nil {
		return err
	}
	defer r.limiter.denials.forget(r.name)
	return r.limiter.client.Do(ctx, cmd).Err
}

// id names the cancellation.
func (r *Reservation) id() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.id == "" {
		r.mu.id = wire.NewID()
	}
	return r.mu.id
}
