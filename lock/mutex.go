package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

var (
	// ErrNotHeld is matched when a lease is over that was not released: by
	// ErrRanOut, ErrTaken, or what the server says of a lease that this process
	// did not make. Another may hold the lock now.
	ErrNotHeld = errors.New("lock: not held")

	// ErrRanOut is matched when a lease came to its deadline: it was not
	// renewed, or the server could not be reached for as long. It is an
	// ErrNotHeld.
	ErrRanOut = fmt.Errorf("%w: the lease ran out at its deadline", ErrNotHeld)

	// ErrTaken is matched when the server refused a lease before its deadline:
	// it was released by force, or the server has lost it. It is an ErrNotHeld.
	ErrTaken = fmt.Errorf("%w: the server says that it is over before its time: it was released by force, or the server lost its data", ErrNotHeld)

	// ErrReleased is what [Lease.Err] gives after [Lease.Release].
	ErrReleased = errors.New("lock: released")
)

const (
	// DefaultTTL is the TTL of a [Mutex] whose options name none.
	DefaultTTL = 30 * time.Second
	// MinTTL and MaxTTL bound a TTL.
	MinTTL = time.Millisecond
	MaxTTL = 365 * 24 * time.Hour
	// MaxLabel is the longest label, in bytes.
	MaxLabel = 256
)

// Options configure a [Mutex]. The zero value is ready to use.
type Options struct {
	// TTL is how long a lease lasts on the server unless it is renewed: the
	// longest that others wait after the death of a holder. From 1 ms to a
	// year. Defaults to 30 s.
	TTL time.Duration

	// NoRenew leaves it to the caller to call [Lease.Extend]. By default a
	// lease is renewed before a third of its TTL has gone, until it is
	// released, so that it lasts as long as the process lives and reaches the
	// server.
	NoRenew bool

	// Label is shown to whoever finds the lock busy, "host:pid" for instance.
	// At most 256 bytes. Defaults to nothing.
	Label string

	// Fair makes those who wait in Acquire and Do get the lock in the order in
	// which they asked, whatever their process. A release then hands the lock to
	// the first of them, so that nobody comes in between, be it by TryAcquire;
	// one that died costs at most 3 s. Each waiter queues by a command of its
	// own. Callers that use the same name without Fair wait until no fair one
	// does. For a [Mutex] only. By default whoever asks first after a release
	// gets the lock, which is quicker.
	Fair bool

	// Replicas is how many replicas must confirm, by WAIT, that they have the
	// lease before TryAcquire, Acquire and Do return: fewer locks are lost when a
	// primary fails, not none, for one that does not have it may be promoted. If
	// they don't within ReplicaTimeout, the lock is given back, and the error
	// matches [ErrNotReplicated]; so it always does on a server that has no such
	// replicas, as the embedded engine. It costs one more round trip, in which the
	// lease already runs; renewals don't wait. On a cluster, what is said is said
	// of the primary that owns the name by the client's table. For a [Mutex] only.
	// At most 100. Defaults to 0.
	Replicas int
	// ReplicaTimeout is from 1 ms to half the TTL, and has to be shorter than the
	// client's own time-out for replies. Defaults to 1 s, or half the TTL.
	ReplicaTimeout time.Duration
}

// A Mutex is a family of locks on a server, each with a name, that share one
// configuration. At most one [Lease] on a name is valid at a time, among all
// processes that use the server. Make one Mutex and use it for every name.
//
// [Mutex.Do] is what most callers should use. All methods may be called by
// many goroutines at once. A Mutex holds no resources of its own between
// calls and need not be closed.
type Mutex struct{ *family }

// New returns a Mutex on client. It sends nothing.
func New(client *redoubt.Client, opts Options) (*Mutex, error) {
	fault := opts.checkReplicas()
	own := opts
	opts.Fair, opts.Replicas, opts.ReplicaTimeout = false, 0, 0
	f, err := newFamily(client, opts)
	if err := errors.Join(err, fault); err != nil {
		return nil, err
	}
	f.opts.Fair, f.opts.Replicas, f.opts.ReplicaTimeout = own.Fair, own.Replicas, own.ReplicaTimeout
	return &Mutex{f}, nil
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
	if m.opts.Fair {
		return target{fair{}, name, keys}, err
	}
	return target{exclusive{}, name, keys}, err
}

// Do runs fn while it holds the lock called name. It waits for the lock until
// ctx ends. The context that fn gets is derived from ctx and ends when the
// lease is lost, with a cause that matches [ErrNotHeld]: fn must then stop.
//
// Do returns what fn returns, joined with the error of the release: one that
// matches [ErrNotHeld] if the lease was lost while fn ran, for then another may
// have run at the same time. The lock is released when fn panics too.
//
// When ctx is one that such an fn got, or one from [Lease.Context], and carries a
// lease on the same name, then Do runs fn in that lease and sends nothing: see
// [Lease.Enter]. That goes for leases of any type of this package on the same
// Client, and for goroutines too: those that share such a ctx are one holder. If
// that lease was lost, Do returns an error that matches [ErrNotHeld]; if it is a
// reader's, [ErrUpgrade].
//
// Otherwise it costs two round trips, and the renewals.
func (m *Mutex) Do(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	t, err := m.target(name)
	if err != nil {
		return err
	}
	return m.do(ctx, t, fn)
}

// TryAcquire acquires the lock called name if it is free. Exactly one of the
// three results is set: the lease; who holds the lock, when it is busy; or an
// error. It costs one round trip.
//
// When the error matches redoubt.ErrUnknownOutcome the lock may have been
// acquired nevertheless. It is then released in the background, at the latest
// by its TTL.
func (m *Mutex) TryAcquire(ctx context.Context, name string) (*Lease, *Busy, error) {
	t, err := m.target(name)
	if err != nil {
		return nil, nil, err
	}
	return m.try(ctx, t)
}

// Acquire acquires the lock called name. It waits while others hold it, until
// ctx ends, and then returns ctx's error; what it left on the server is undone in
// the background, at the latest by the TTL. A ctx that can't end waits for ever.
//
// It costs one round trip when the lock is free. Otherwise it waits for a
// wake-up from the server, in no promised order unless [Options] say Fair: of all the callers that
// wait for one name with one Client only the first is known to the server, and
// releasing the lock wakes one of those. A wake-up that got lost delays the
// waiter to the end of the lease that it saw, at most 30 s.
func (m *Mutex) Acquire(ctx context.Context, name string) (*Lease, error) {
	t, err := m.target(name)
	if err != nil {
		return nil, err
	}
	return m.lease(ctx, t)
}

// AcquireRequest acquires the lock called name as [Mutex.Acquire] does, but
// gives a [Handle] in place of a [Lease]: [Mutex.Resume] makes a lease of it, here or in another
// process, and whoever knows the ID extends and releases the lock by LOCK.EXTEND and
// LOCK.RELEASE. The error matches [ErrNotHeld] when the ID held the lock before. This is how
// LOCK.ACQUIRE waits.
//
// When ctx ends, what is left on the server is undone in the background, unless
// the request says Keep. After another error that matches
// redoubt.ErrUnknownOutcome the lock may have been acquired: repeat the request
// with the same ID, or release it.
func (m *Mutex) AcquireRequest(ctx context.Context, name string, r Request) (Handle, error) {
	t, err := m.target(name)
	if err != nil {
		return Handle{}, err
	}
	return m.request(ctx, t, r)
}
