package lock

import (
	"context"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// RWMutexOptions configure an [RWMutex]. The zero value is ready to use.
type RWMutexOptions struct {
	// TTL is how long the server keeps a lease that is not renewed, from 1 ms to
	// a year. Defaults to 30 s.
	TTL time.Duration
	// NoRenew turns automatic renewal off: the caller calls [Lease.Extend].
	NoRenew bool
	// Label tells other clients who holds the lock. At most 256 bytes. Defaults
	// to none.
	Label string
}

// An RWMutex holds named reader/writer locks on a server. One writer or any number
// of readers hold a name, each with its own [Lease]: a dead reader is in the way only
// until its own lease ends. Make one RWMutex and use it for every name.
//
// As in sync.RWMutex, the plain methods are for writers, and methods that end in
// Shared are for readers. An RWMutex and a [Mutex] with the same name are the same
// lock: an acquisition of the Mutex is a writer without preference.
//
// Writers are preferred: while a writer waits in Acquire, no new reader gets in;
// current readers go on. The writer repeats each second that it waits, so a dead
// writer keeps readers out for 3 s at most. A reader must not acquire its lock again:
// a writer in between would wait for the first lease and keep out the second. Do and
// DoShared with the lease's own ctx enter the lease instead. A writer may enter for
// reading and writing; a reader that asks for the write lock gets [ErrUpgrade].
//
// The tokens of writers rise as the tokens of a Mutex do. Readers carry the token of
// the last writer, so a fenced resource refuses readers that a later writer has
// overtaken.
//
// All methods may be called by many goroutines at once. An RWMutex holds no resources
// between calls and need not be closed.
type RWMutex struct{ *family }

// NewRWMutex returns an RWMutex on client. It sends nothing. The error joins all
// that is wrong with the options.
func NewRWMutex(client *redoubt.Client, opts RWMutexOptions) (*RWMutex, error) {
	f, err := newFamily(client, leaseOptions(opts))
	if err != nil {
		return nil, err
	}
	return &RWMutex{f}, nil
}

// Do runs fn while it holds the write lock called name, as [Mutex.Do] does.
func (rw *RWMutex) Do(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	t, err := rw.target(name, writing{})
	if err != nil {
		return err
	}
	return rw.do(ctx, t, fn)
}

// DoShared runs fn while it holds the lock called name as a reader, as [Mutex.Do]
// does.
func (rw *RWMutex) DoShared(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	t, err := rw.target(name, reading{})
	if err != nil {
		return err
	}
	return rw.do(ctx, t, fn)
}

// Acquire acquires the write lock called name. It waits as [Mutex.Acquire] does, and
// keeps new readers out meanwhile: each second of waiting costs one command.
func (rw *RWMutex) Acquire(ctx context.Context, name string) (*Lease, error) {
	t, err := rw.target(name, writing{})
	if err != nil {
		return nil, err
	}
	return rw.lease(ctx, t)
}

// AcquireShared acquires the lock called name as a reader. It waits as
// [Mutex.Acquire] does, while a writer holds the lock or waits for it.
func (rw *RWMutex) AcquireShared(ctx context.Context, name string) (*Lease, error) {
	t, err := rw.target(name, reading{})
	if err != nil {
		return nil, err
	}
	return rw.lease(ctx, t)
}

// TryAcquire acquires the write lock called name if nobody holds the lock. Its
// results are as in [Mutex.TryAcquire]. When readers hold the lock, Busy.Remaining is
// the time of the reader whose lease ends last, and Busy.Label is the label of the
// first reader.
func (rw *RWMutex) TryAcquire(ctx context.Context, name string) (*Lease, *Busy, error) {
	t, err := rw.target(name, writing{})
	if err != nil {
		return nil, nil, err
	}
	return rw.try(ctx, t)
}

// TryAcquireShared acquires the lock called name as a reader, if no writer holds it
// or waits for it. Its results are as in [Mutex.TryAcquire]. When a writer waits,
// Busy.Remaining is how long it keeps readers out unless it goes on waiting.
func (rw *RWMutex) TryAcquireShared(ctx context.Context, name string) (*Lease, *Busy, error) {
	t, err := rw.target(name, reading{})
	if err != nil {
		return nil, nil, err
	}
	return rw.try(ctx, t)
}

// AcquireRequest acquires as Acquire does, and returns a [Handle]: see
// [Mutex.AcquireRequest]. LOCK.EXTEND and LOCK.RELEASE extend and release it.
func (rw *RWMutex) AcquireRequest(ctx context.Context, name string, r Request) (Handle, error) {
	t, err := rw.target(name, writing{})
	if err != nil {
		return Handle{}, err
	}
	return rw.request(ctx, t, r)
}

// AcquireSharedRequest acquires as AcquireShared does, and returns a [Handle]: see
// AcquireRequest.
func (rw *RWMutex) AcquireSharedRequest(ctx context.Context, name string, r Request) (Handle, error) {
	t, err := rw.target(name, reading{})
	if err != nil {
		return Handle{}, err
	}
	return rw.request(ctx, t, r)
}

func (rw *RWMutex) target(name string, k kind) (target, error) {
	keys, err := wire.RWKeys(rw.client, name)
	return target{k, name, keys}, err
}

// writing is the kind of a writer: as of a Mutex, with a claim.
type writing struct{}

// acquire names the keys of the release too, which the script doesn't use. So a pool without
// hash_tag, which has them on several servers, refuses to acquire what it couldn't release.
func (writing) acquire(keys []string, r Request, waiter string) redoubt.Cmd {
	return wire.AcquireCmd(keys, r.wire(waiter))
}

func (writing) extend(keys []string, id string, ttl time.Duration) redoubt.Cmd {
	return wire.ExtendCmd(keys[:1], id, ttl)
}

func (writing) release(keys []string, id, waiter string, void bool) redoubt.Cmd {
	how := wire.End
	if void {
		how = wire.VoidWrite
	}
	return wire.RWReleaseCmd(keys, id, waiter, how)
}

func (writing) claim(keys []string, id string) redoubt.Cmd {
	return wire.ClaimCmd(keys, id, claimFor)
}

func (writing) unclaim(keys []string, id, waiter string) redoubt.Cmd {
	return wire.UnclaimCmd(keys, id, waiter)
}

// reading is the kind of a reader.
type reading struct{}

func (reading) acquire(keys []string, r Request, waiter string) redoubt.Cmd {
	return wire.ReadCmd(keys, r.wire(waiter))
}

func (reading) extend(keys []string, id string, ttl time.Duration) redoubt.Cmd {
	return wire.RWExtendCmd(keys, id, ttl)
}

func (reading) release(keys []string, id, waiter string, void bool) redoubt.Cmd {
	how := wire.End
	if void {
		how = wire.VoidRead
	}
	return wire.RWReleaseCmd(keys, id, waiter, how)
}
