package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// SemaphoreOptions configure a [Semaphore]. The zero value is ready to use.
type SemaphoreOptions struct {
	// TTL is how long the server keeps a lease that is not renewed, from 1 ms to
	// a year. Defaults to 30 s.
	TTL time.Duration
	// NoRenew turns automatic renewal off: the caller calls [Lease.Extend].
	NoRenew bool
	// Label tells other clients who holds a permit. At most 256 bytes. Defaults
	// to none.
	Label string
}

// A Semaphore holds named counting semaphores on a server. At most limit permits of a
// name are held at a time. Each permit has its own [Lease], so the permit of a dead
// holder comes back by itself. Make one Semaphore and use it for every name.
//
// The limit is an argument of each call, because it belongs to the name. Callers that
// disagree are each held to their own limit: a caller gets a permit when fewer are
// taken than its limit. A lower limit takes no permit away, but admits nobody until
// enough permits have come back. A waiter with a higher limit than the waiters before
// it may learn of a free permit only when the lease that it saw ends, after 30 s at
// most.
//
// Most callers should use [Semaphore.Do]. All methods may be called by many goroutines
// at once. A Semaphore holds no resources between calls and need not be closed.
type Semaphore struct{ *family }

// NewSemaphore returns a Semaphore on client. It sends nothing. The error joins
// all that is wrong with the options.
func NewSemaphore(client *redoubt.Client, opts SemaphoreOptions) (*Semaphore, error) {
	f, err := newFamily(client, leaseOptions(opts))
	if err != nil {
		return nil, err
	}
	return &Semaphore{f}, nil
}

// Do runs fn while it holds a permit of the semaphore called name, as
// [Mutex.Do] does with a lock.
func (s *Semaphore) Do(ctx context.Context, name string, limit int, fn func(ctx context.Context) error) error {
	t, err := s.target(name, limit)
	if err != nil {
		return err
	}
	return s.do(ctx, t, fn)
}

// Acquire takes a permit of the semaphore called name, limit from 1 to [MaxLimit]. It
// waits while limit or more are taken, as [Mutex.Acquire] does: until ctx ends, and in
// no promised order. Callers of one Client that wait for the same name share one
// queue, whatever their limits. It costs one round trip when a permit is free.
func (s *Semaphore) Acquire(ctx context.Context, name string, limit int) (*Lease, error) {
	t, err := s.target(name, limit)
	if err != nil {
		return nil, err
	}
	return s.lease(ctx, t)
}

// TryAcquire takes a permit of the semaphore called name if fewer than limit are
// taken. Exactly one of the three results is set: the lease; when no permit is free,
// the holder whose permit ends first; or an error, as in [Mutex.TryAcquire]. It costs
// one round trip.
func (s *Semaphore) TryAcquire(ctx context.Context, name string, limit int) (*Lease, *Busy, error) {
	t, err := s.target(name, limit)
	if err != nil {
		return nil, nil, err
	}
	return s.try(ctx, t)
}

// AcquireRequest takes a permit as Acquire does, and returns a [Handle]: see
// [Mutex.AcquireRequest]. SEM.EXTEND and SEM.RELEASE extend and release it.
// SEM.ACQUIRE uses it.
func (s *Semaphore) AcquireRequest(ctx context.Context, name string, limit int, r Request) (Handle, error) {
	t, err := s.target(name, limit)
	if err != nil {
		return Handle{}, err
	}
	return s.request(ctx, t, r)
}

func (s *Semaphore) target(name string, limit int) (target, error) {
	if err := checkLimit(limit); err != nil {
		return target{}, err
	}
	keys, err := wire.SemaphoreKeys(s.client, name)
	return target{permit{limit}, name, keys}, err
}

func checkLimit(limit int) error {
	if limit < 1 || limit > MaxLimit {
		return fmt.Errorf("lock: limit is %d; want 1 to %d", limit, MaxLimit)
	}
	return nil
}

// permit is the kind of a semaphore.
type permit struct{ limit int }

func (p permit) acquire(keys []string, r Request, waiter string) redoubt.Cmd {
	return wire.PermitCmd(keys, p.limit, r.wire(waiter))
}

func (permit) extend(keys []string, id string, ttl time.Duration) redoubt.Cmd {
	return wire.PermitExtendCmd(keys, id, ttl)
}

func (p permit) release(keys []string, id, waiter string, void bool) redoubt.Cmd {
	return wire.PermitReleaseCmd(keys, p.limit, id, waiter, void)
}
