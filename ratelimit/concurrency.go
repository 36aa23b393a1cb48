package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// ConcurrencyOptions configure a [Concurrency]. Limit must be set.
type ConcurrencyOptions struct {
	// Limit is how many calls of a name may be under way at a time: 1 to
	// [MaxConcurrency].
	Limit int

	// TTL is how long a call counts as under way after it was begun or extended: how long
	// the calls of a dead process take up their places. From 1 ms to ten years. Defaults
	// to 30 s.
	TTL time.Duration

	// Scope says whose calls are counted. Defaults to Overall.
	Scope Scope
}

// A Concurrency limits how many calls are under way at the same time, for each of any
// number of names. Each call has a lease of its own, so the places of a dead process come
// back. It never waits; the Semaphore of package lock does.
//
// Most callers should use [Concurrency.Do]. All methods may be called by many goroutines
// at once. A Concurrency keeps nothing between calls and need not be closed. The calls
// are a sorted set, "<prefix>:{<name>}:calls", which expires with the last one.
type Concurrency struct {
	keyspace
	limit int
	ttl   time.Duration
}

// NewConcurrency returns a Concurrency on client. It sends nothing. The error
// joins all that is wrong with the options.
func NewConcurrency(client *redoubt.Client, opts ConcurrencyOptions) (*Concurrency, error) {
	keys, err := newKeyspace(client, opts.Scope)
	errs := []error{err}
	if client == nil {
		errs = append(errs, errors.New("ratelimit: client is nil"))
	}
	if opts.Limit < 1 || opts.Limit > MaxConcurrency {
		errs = append(errs, fmt.Errorf("ratelimit: limit is %d; want 1 to %d", opts.Limit, MaxConcurrency))
	}
	if opts.TTL == 0 {
		opts.TTL = 30 * time.Second
	}
	if opts.TTL < time.Millisecond || opts.TTL > maxCallTTL {
		errs = append(errs, fmt.Errorf("ratelimit: TTL is %v; want 1ms to %v", opts.TTL, maxCallTTL))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Concurrency{keyspace: keys, limit: opts.Limit, ttl: opts.TTL}, nil
}

const maxCallTTL = 10 * 365 * 24 * time.Hour

// A Call is a call that is under way. Its methods may be called by many goroutines at
// once.
type Call struct {
	c    *Concurrency
	name string
	key  string
	id   string
	// until is the earliest time at which the server considers the call over, by the local
	// clock: TTL after it was last begun or extended, from before that was sent.
	until atomic.Pointer[time.Time]
}

// Begin begins a call under name, if fewer than Limit are under way. Otherwise the Call
// is nil, and RetryAfter is when the lease of one of them ends. Remaining is how many
// more may begin. It may be sent again after a lost reply. One round trip.
func (c *Concurrency) Begin(ctx context.Context, name string) (*Call, Decision, error) {
	key, err := c.taken(name, "calls")
	if err != nil {
		return nil, Decision{}, err
	}
	call := &Call{c: c, name: name, key: key, id: wire.NewID()}
	call.lasts(time.Now())
	begun, underWay, next, err := wire.ReadBegin(c.client.Do(ctx, wire.BeginCmd(key, call.id, c.ttl, c.limit)))
	if err != nil {
		if errors.Is(err, redoubt.ErrUnknownOutcome) {
			call.endLater(ctx)
		}
		return nil, Decision{}, err
	}
	d := Decision{
		Allowed:    begun,
		Limit:      Limit{Rate: c.limit, Period: c.ttl, Burst: c.limit},
		Violated:   -1,
		Remaining:  max(0, c.limit-underWay),
		RetryAfter: next,
	}
	_, _ = reported(ctx, c.client, name, 1, d, nil)
	if !d.Allowed {
		d.Violated = 0
		return nil, d, nil
	}
	d.Taken = 1
	return call, d, nil
}

// Extend makes the call last TTL from now, if it is still under way; otherwise it reports
// false. One round trip.
func (c *Call) Extend(ctx context.Context) (bool, error) {
	sent := time.Now()
	held, err := c.stay(ctx, c.c.ttl)
	if held && err == nil {
		c.lasts(sent)
	}
	return held, err
}

// lasts notes that the call was begun or extended.
func (c *Call) lasts(sent time.Time) {
	until := sent.Add(c.c.ttl)
	c.until.Store(&until)
}

// End ends the call, so that another may begin. It may be repeated. One round trip.
func (c *Call) End(ctx context.Context) error {
	_, err := c.stay(ctx, 0)
	return err
}

func (c *Call) stay(ctx context.Context, ttl time.Duration) (bool, error) {
	return wire.ReadStay(c.c.client.Do(ctx, wire.StayCmd(c.key, c.id, ttl)))
}

// endLater ends the call in the background. If that fails, it ends with its TTL.
func (c *Call) endLater(ctx context.Context) {
	ctx = redoubt.Patient(context.WithoutCancel(ctx))
	c.c.client.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
		defer cancel()
		_ = c.End(ctx)
	})
}

// Do runs fn as a call under name, if fewer than Limit are under way, and returns its
// error. Otherwise the Decision is not Allowed and fn does not run. The call is extended
// while fn runs. If that fails for so long that the server may consider the call over,
// the ctx of fn ends, and the error matches [ErrCallLost]. It costs two round trips, and
// one for each third of the TTL.
func (c *Concurrency) Do(ctx context.Context, name string, fn func(ctx context.Context) error) (Decision, error) {
	call, d, err := c.Begin(ctx, name)
	if err != nil || call == nil {
		return d, err
	}
	within, end := call.KeepAlive(ctx)
	defer end()
	err = fn(within)
	if errors.Is(context.Cause(within), ErrCallLost) {
		err = errors.Join(ErrCallLost, err)
	}
	return d, err
}

// KeepAlive extends the call again and again until end is called; end ends the
// call, and may be called more than once. When extending fails for so long that
// the server may consider the call over, the returned ctx ends first, and its cause
// is [ErrCallLost]. Use it where [Concurrency.Do] doesn't fit. One round trip each
// third of the TTL.
func (c *Call) KeepAlive(ctx context.Context) (within context.Context, end func()) {
	within, lost := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.keep(within, lost)
	}()
	return within, sync.OnceFunc(func() {
		lost(nil)
		<-done
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
		defer cancel()
		_ = c.End(ctx) // otherwise it ends with its TTL
	})
}

// keep extends the call until ctx ends, and calls lost when the call may be over.
func (c *Call) keep(ctx context.Context, lost context.CancelCauseFunc) {
	ttl := c.c.ttl
	over := time.AfterFunc(time.Until(*c.until.Load()), func() { lost(ErrCallLost) })
	defer over.Stop()
	next := time.NewTimer(time.Until(*c.until.Load()) - ttl*2/3)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), ErrCallLost) {
				c.c.client.Report(ctx, redoubt.Event{Kind: redoubt.EventLost, Primitive: "ratelimit", Name: c.name, Err: ErrCallLost})
			}
			return
		case <-next.C:
		}
		try, cancel := context.WithTimeout(redoubt.Patient(ctx), ttl/3)
		held, err := c.Extend(try)
		cancel()
		switch {
		case err != nil:
			next.Reset(ttl / 6)
			if ctx.Err() == nil {
				c.c.client.Report(ctx, redoubt.Event{Kind: redoubt.EventRenewalFailed, Primitive: "ratelimit", Name: c.name, Err: err})
			}
		case held:
			over.Reset(time.Until(*c.until.Load()))
			next.Reset(ttl / 3)
		default:
			lost(ErrCallLost)
		}
	}
}
