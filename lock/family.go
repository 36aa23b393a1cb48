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

// A kind is a kind of lock: it makes the commands. The replies of all kinds have the shapes of
// wire.ReadAttempt, wire.ReadExtend and wire.ReadRelease. Waiting, leases and renewals are
// the same for all kinds.
type kind interface {
	// acquire queues waiter, if it is not empty, when the lock is busy.
	acquire(keys []string, r Request, waiter string) redoubt.Cmd
	extend(keys []string, id string, ttl time.Duration) redoubt.Cmd
	// release ends the acquisition id and removes waiter, if it is not empty, from the
	// queue. With void it also ends an acquire that may still be under way.
	release(keys []string, id, waiter string, void bool) redoubt.Cmd
}

// A claimer is a kind of lock whose waiters keep others out while they wait. They repeat the
// claim, so that a dead waiter does so only for a short time.
type claimer interface {
	kind
	claim(keys []string, id string) redoubt.Cmd
	// unclaim takes the claim of id back, and removes waiter, if it is not empty, from
	// the queue. It releases nothing.
	unclaim(keys []string, id, waiter string) redoubt.Cmd
}

// A target can be acquired: one name of one kind.
type target struct {
	kind kind
	name string
	keys []string // waiters are woken for the first
}

func (t target) key() string { return t.keys[0] }

// slot is the slot of the keys on a cluster.
func (t target) slot() uint16 { return keyslot.Of([]byte(t.key())) }

func (t target) release(id string) redoubt.Cmd { return t.kind.release(t.keys, id, "", false) }
func (t target) void(id string) redoubt.Cmd    { return t.kind.release(t.keys, id, "", true) }

// leave removes waiter from the queue, and takes a claim of id back.
func (t target) leave(id, waiter string) redoubt.Cmd {
	if c, ok := t.kind.(claimer); ok {
		return c.unclaim(t.keys, id, waiter)
	}
	return t.kind.release(t.keys, "", waiter, false)
}

// A family is the common part of all types of lock: the client, the options, the waiting and
// the renewals.
type family struct {
	client  *redoubt.Client // nil for a [Quorum]
	opts    leaseOptions
	queues  *waitQueues
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
	return &family{client: client, opts: opts, queues: queuesOf(client), renewer: renewerOf(client)}, nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return fmt.Errorf("lock: ttl is %v; want %v to %v", ttl, MinTTL, MaxTTL)
	}
	return nil
}

// newRequest returns an acquisition with the configured TTL and label.
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

// errTooLate is the error of an attempt whose lease ended before its reply came.
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
		// The lease ended before its reply came: try again.
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

// errOver is the error of a request whose ID held the lock before.
var errOver = fmt.Errorf("%w: the ID held the lock before, and was released or ran out", ErrNotHeld)

// undo voids an acquire with an unknown outcome in the background. It does so twice: the
// first void may overtake the acquire on another connection, and a lock remembers only the
// last of several such voids.
func (f *family) undo(ctx context.Context, t target, id string) {
	f.client.Go(func() {
		ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), cleanUpTimeout)
		defer cancel()
		_ = f.client.Do(ctx, t.void(id))
		if pause(ctx, undoAgain) {
			_ = f.client.Do(ctx, t.void(id))
		}
	})
}

// pause waits for d, and returns false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// undoAgain is how long after its undoing an acquire may still be under way.
const undoAgain = 200 * time.Millisecond

// cleanUp sends cmds in the background, for a caller that has left. It does not depend on
// ctx, which may have ended. Leases that it can't reach in time end with their TTL.
func (f *family) cleanUp(ctx context.Context, cmds ...redoubt.Cmd) {
	f.client.Go(func() {
		ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), cleanUpTimeout)
		defer cancel()
		_ = f.send(ctx, cmds)
	})
}

// send runs cmds in one round trip for each server. A single command may be sent together
// with the commands of other callers.
func (f *family) send(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	switch len(cmds) {
	case 0:
		return nil
	case 1:
		return []redoubt.Reply{f.client.Do(ctx, cmds[0])}
	}
	return f.client.Pipeline(ctx, cmds)
}

// cleanUpTimeout bounds the cleaning up on the server after the caller has left.
const cleanUpTimeout = 3 * time.Second
