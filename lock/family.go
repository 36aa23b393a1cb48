package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/keyslot"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// A kind is one sort of lock: the commands that its scripts make, whose replies
// all have the shapes of wire.ReadAttempt, wire.ReadExtend and wire.ReadRelease. Waiting,
// leases and renewals are the same for all kinds.
type kind interface {
	// acquire queues waiter, if it is not empty, when the lock is busy.
	acquire(keys []string, r Request, waiter string) redoubt.Cmd
	extend(keys []string, id string, ttl time.Duration) redoubt.Cmd
	// release ends the acquisition id and takes waiter, if it is not empty, out
	// of the queue. With void it ends an acquire that may be still under way.
	release(keys []string, id, waiter string, void bool) redoubt.Cmd
}

// A claimer is a kind of lock whose waiters keep others out while they wait, and
// say so again and again, so that a dead one does not for long.
type claimer interface {
	kind
	claim(keys []string, id string) redoubt.Cmd
	// unclaim takes the claim of id back, and waiter, if it is not empty, out of
	// the queue. It releases nothing.
	unclaim(keys []string, id, waiter string) redoubt.Cmd
}

// A target is what can be acquired: one name of one kind.
type target struct {
	kind kind
	name string
	keys []string // waiters are woken for the first
}

func (t target) key() string { return t.keys[0] }

// slot is where the keys are on a cluster.
func (t target) slot() uint16 { return keyslot.Of([]byte(t.key())) }

func (t target) release(id string) redoubt.Cmd { return t.kind.release(t.keys, id, "", false) }
func (t target) void(id string) redoubt.Cmd    { return t.kind.release(t.keys, id, "", true) }

// leave takes waiter out of the queue, and a claim of id back.
func (t target) leave(id, waiter string) redoubt.Cmd {
	if c, ok := t.kind.(claimer); ok {
		return c.unclaim(t.keys, id, waiter)
	}
	return t.kind.release(t.keys, "", waiter, false)
}

// A family is what locks of every kind are made of: the client, the
// configuration, the waiting, the renewals.
type family struct {
	client  *redoubt.Client // nil for a [Quorum]
	opts    leaseOptions
	lines   *lines
	renewer *renewer
	masters []*family // of a Quorum: one for each

	replication replication // of a Mutex
}

// leaseOptions are the options of every kind: TTL, NoRenew and Label of [Options].
type leaseOptions struct {
	TTL     time.Duration
	NoRenew bool
	Label   string
}

// newFamily checks opts and fills in the defaults.
func newFamily(client *redoubt.Client, opts leaseOptions) (*family, error) {
	if opts.TTL == 0 {
		opts.TTL = DefaultTTL
	}
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("lock: client is nil"))
	}
	errs = append(errs, checkTTL(opts.TTL))
	if len(opts.Label) > MaxLabel {
		errs = append(errs, fmt.Errorf("lock: label has %d bytes; want at most %d", len(opts.Label), MaxLabel))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &family{client: client, opts: opts, lines: linesOf(client), renewer: renewerOf(client)}, nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return fmt.Errorf("lock: ttl is %v; want %v to %v", ttl, MinTTL, MaxTTL)
	}
	return nil
}

// newRequest is one acquisition with the configured TTL and label.
func (f *family) newRequest() Request {
	return Request{ID: wire.NewID(), TTL: f.opts.TTL, Label: f.opts.Label}
}

// do is Do of every kind.
func (f *family) do(ctx context.Context, t target, fn func(ctx context.Context) error) error {
	outer, err := f.carriedBy(ctx, t)
	if err != nil {
		return err
	}
	if outer != nil {
		return outer.enter(ctx, fn)
	}
	lease, err := f.lease(ctx, t)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// do runs fn while the lease lasts, and releases it.
func (l *Lease) do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	defer func() {
		if rerr := l.Release(ctx); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	return fn(l.Context(ctx))
}

// try is TryAcquire of every kind.
func (f *family) try(ctx context.Context, t target) (*Lease, *Busy, error) {
	r := f.newRequest()
	sent, a, err := f.attempt(ctx, t, r, "")
	switch {
	case errors.Is(err, redoubt.ErrUnknownOutcome):
		f.undo(ctx, t, r.ID)
		return nil, nil, err
	case err != nil:
		return nil, nil, err
	case a.Status == wire.Acquired:
		if err := f.replicated(ctx, t, r.ID); err != nil {
			return nil, nil, err
		}
		lease, err := f.newLease(ctx, t, r.ID, sent, a)
		return lease, nil, err
	case a.Status == wire.Over:
		return nil, nil, errTooLate
	}
	return nil, f.busy(t, a), nil
}

// errTooLate is what an attempt gives whose lease was over before its reply came.
var errTooLate = fmt.Errorf("%w: the lease ran out before the reply came", ErrNotHeld)

func (f *family) busy(t target, a wire.Attempt) *Busy {
	return &Busy{
		Name: t.name, Remaining: a.TTL, Token: a.Token, Label: a.Label,
		wait: func(ctx context.Context) (*Lease, error) { return f.lease(ctx, t) },
	}
}

// lease is Acquire of every kind.
func (f *family) lease(ctx context.Context, t target) (*Lease, error) {
	for {
		r, sent, a, err := f.take(ctx, t)
		if err == nil {
			err = f.replicated(ctx, t, r.ID)
		}
		if err != nil {
			return nil, err
		}
		lease, err := f.newLease(ctx, t, r.ID, sent, a)
		if lease != nil {
			return lease, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
}

// take waits until t is acquired.
func (f *family) take(ctx context.Context, t target) (r Request, sent time.Time, a wire.Attempt, err error) {
	for {
		r = f.newRequest()
		sent, a, err = f.acquire(ctx, t, r)
		switch {
		case errors.Is(err, redoubt.ErrUnknownOutcome):
			f.undo(ctx, t, r.ID)
			return r, sent, a, err
		case err != nil || a.Status == wire.Acquired:
			return r, sent, a, err
		}
		// It was acquired, and over before its reply came: try anew.
	}
}

// request is AcquireRequest of every kind.
func (f *family) request(ctx context.Context, t target, r Request) (Handle, error) {
	if err := r.check(); err != nil {
		return Handle{}, err
	}
	_, a, err := f.acquire(ctx, t, r)
	if ctx.Err() != nil && errors.Is(err, redoubt.ErrUnknownOutcome) && !r.Keep {
		f.undo(ctx, t, r.ID)
	}
	switch {
	case err != nil:
		return Handle{}, err
	case a.Status == wire.Over:
		return Handle{}, errOver
	}
	return Handle{Name: t.name, ID: r.ID, Token: a.Token, TTL: a.TTL}, nil
}

// errOver is what a request gives whose ID held the lock before.
var errOver = fmt.Errorf("%w: the ID held the lock before, and was released or ran out", ErrNotHeld)

// undo voids an acquire whose outcome is unknown, in the background. It does so
// twice: the first may overtake the acquire, on another connection, and of several
// that do so the lock remembers only the last.
func (f *family) undo(ctx context.Context, t target, id string) {
	f.client.Go(func() {
		ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), cleanUpTimeout)
		defer cancel()
		_ = f.client.Do(ctx, t.void(id))
		timer := time.NewTimer(undoAgain)
		defer timer.Stop()
		select {
		case <-timer.C:
			_ = f.client.Do(ctx, t.void(id))
		case <-ctx.Done():
		}
	})
}

// undoAgain is how much later than its undoing an acquire may still be on its way.
const undoAgain = 200 * time.Millisecond

// cleanUp sends cmds in the background, for a caller that has left. It does not
// depend on ctx, which may be what ended; whatever it can't reach within the
// time ends by itself with the TTL.
func (f *family) cleanUp(ctx context.Context, cmds ...redoubt.Cmd) {
	f.client.Go(func() {
		ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), cleanUpTimeout)
		defer cancel()
		_ = f.send(ctx, cmds)
	})
}

// send runs cmds in one round trip for each server. One alone may leave together
// with those of other callers.
func (f *family) send(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	switch len(cmds) {
	case 0:
		return nil
	case 1:
		return []redoubt.Reply{f.client.Do(ctx, cmds[0])}
	}
	return f.client.Pipeline(ctx, cmds)
}

// cleanUpTimeout bounds what is done on the server after the caller has left.
const cleanUpTimeout = 3 * time.Second
