package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// Options configure a [Mutex]. The zero value is ready to use.
type Options struct {
	// TTL is how long the server keeps a lease that is not renewed: the longest
	// wait after the death of a holder. From 1 ms to a year. Defaults to 30 s.
	TTL time.Duration

	// NoRenew turns automatic renewal off: the caller calls [Lease.Extend]. By
	// default a lease is renewed before a third of its TTL has passed, until it
	// is released, so it lasts as long as the process lives and reaches the
	// server.
	NoRenew bool

	// Label tells other clients who holds the lock, "host:pid" for instance: see
	// [Busy] and [Holder]. At most 256 bytes. Defaults to none.
	Label string

	// Fair serves the callers of Acquire and Do in the order in which they asked,
	// across all processes. A release then hands the lock to the first waiter, so
	// not even TryAcquire gets in between; a dead waiter delays the others by 3 s
	// at most. Each waiter queues by a command of its own. Callers without Fair
	// on the same name wait until no fair caller waits. By default the first
	// caller to ask after a release gets the lock, which is quicker.
	Fair bool

	// Replicas is how many replicas must confirm the lease, by WAIT, before
	// TryAcquire, Acquire and Do return. Fewer locks are then lost when a primary
	// fails; some still are, because a replica without the lease may be promoted.
	// If too few confirm within ReplicaTimeout, the lock is released, and the
	// error matches [ErrNotReplicated]. That is always so on a server without
	// replicas, the embedded engine included. It costs one more round trip while
	// the lease already runs; renewals don't wait. On a cluster it concerns the
	// primary of the name in the client's slot table. For WAIT each acquisition writes a
	// key that lives for a second: the lock's with ":replicas" behind it.
	// 0 to 100. Defaults to 0.
	Replicas int
	// ReplicaTimeout is from 1 ms to half the TTL, and must be shorter than the
	// client's own read timeout. Defaults to 1 s, or half the TTL if that is
	// shorter.
	ReplicaTimeout time.Duration
}

// A Mutex holds named locks on a server. At most one [Lease] on a name is valid at
// a time, among all processes that use the server. Make one Mutex and use it for
// every name.
//
// Most callers should use [Mutex.Do]. All methods may be called by many goroutines
// at once. A Mutex holds no resources between calls and need not be closed.
type Mutex struct {
	*family
	fair bool
}

// New returns a Mutex on client. It sends nothing. The error joins all that is
// wrong with the options.
func New(client *redoubt.Client, opts Options) (*Mutex, error) {
	f, err := newFamily(client, leaseOptions{TTL: opts.TTL, NoRenew: opts.NoRenew, Label: opts.Label})
	r, rerr := opts.replication()
	if err := errors.Join(err, rerr); err != nil {
		return nil, err
	}
	f.replication = r
	return &Mutex{family: f, fair: opts.Fair}, nil
}

// exclusive is the kind of a Mutex: one lease at a time.
type exclusive struct{}

func (exclusive) acquire(keys []string, r Request, waiter string) redoubt.Cmd {
	return wire.AcquireCmd(keys, r.wire(waiter))
}

func (exclusive) extend(keys []string, id string, ttl time.Duration) redoubt.Cmd {
	return wire.ExtendCmd(keys, id, ttl)
}

func (exclusive) release(keys []string, id, waiter string, void bool) redoubt.Cmd {
	return wire.ReleaseCmd(keys, id, waiter, void)
}

func (m *Mutex) target(name string) (target, error) {
	keys, err := wire.Keys(m.client, name)
	if m.fair {
		return target{fair{}, name, keys}, err
	}
	return target{exclusive{}, name, keys}, err
}

// Do runs fn while it holds the lock called name. It waits for the lock until ctx
// ends. The context of fn is derived from ctx and ends when the lease is lost, with
// a cause that matches [ErrNotHeld]: fn must then stop. [FromContext] returns
// the lease, with the fencing token, from that context.
//
// Do returns the error of fn, joined with the error of the release. It matches
// [ErrNotHeld] if the lease was lost while fn ran: another holder may have run at
// the same time. The lock is released when fn panics too.
//
// If ctx is the context of such an fn, or of [Lease.Context], and carries a lease on
// the same name, Do runs fn in that lease and sends nothing: see [Lease.Enter]. The
// lease may be of any type of this package on the same Client. Goroutines that share
// such a ctx are one holder. If that lease was lost, the error matches
// [ErrNotHeld]; if it is a reader's lease, the error is [ErrUpgrade].
//
// Otherwise Do costs two round trips, and the renewals.
func (m *Mutex) Do(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	t, err := m.target(name)
	if err != nil {
		return err
	}
	return m.do(ctx, t, fn)
}

// TryAcquire acquires the lock called name if it is free. Exactly one of the three
// results is set: the lease; the holder, when the lock is busy; or an error. It
// costs one round trip.
//
// When the error matches redoubt.ErrUnknownOutcome the server may have granted the
// lock. It is then released in the background, at the latest by its TTL.
func (m *Mutex) TryAcquire(ctx context.Context, name string) (*Lease, *Busy, error) {
	t, err := m.target(name)
	if err != nil {
		return nil, nil, err
	}
	return m.try(ctx, t)
}

// Acquire acquires the lock called name. It waits while others hold it. When ctx
// ends it returns the error of ctx, and its traces on the server are removed in the
// background, at the latest by the TTL. Without an end of ctx it waits for ever.
//
// It costs one round trip when the lock is free. Otherwise it waits for a wake-up
// from the server, in no promised order unless Options.Fair is set. Among all
// callers that wait for a name with one Client, the server knows only the first;
// each release wakes one Client's first caller. A lost wake-up delays the waiter
// until the end of the lease that it saw, by 30 s at most.
func (m *Mutex) Acquire(ctx context.Context, name string) (*Lease, error) {
	t, err := m.target(name)
	if err != nil {
		return nil, err
	}
	return m.lease(ctx, t)
}

// AcquireRequest acquires the lock called name as [Mutex.Acquire] does, with an ID of
// the caller's, and returns a [Handle] in place of a [Lease]. [Mutex.Resume] turns it
// into a lease, in any process; LOCK.EXTEND and LOCK.RELEASE extend and release the
// lock by its ID. The error matches [ErrNotHeld] when the ID held the lock before.
// LOCK.ACQUIRE uses it.
//
// When ctx ends, its traces on the server are removed in the background, unless
// Request.Keep is set. After another error that matches redoubt.ErrUnknownOutcome
// the lock may be held: repeat the request with the same ID, or release it.
func (m *Mutex) AcquireRequest(ctx context.Context, name string, r Request) (Handle, error) {
	t, err := m.target(name)
	if err != nil {
		return Handle{}, err
	}
	return m.request(ctx, t, r)
}
