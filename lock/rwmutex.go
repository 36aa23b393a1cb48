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

// An RWMutex is a family of reader/writer locks on a server, each with a name,
// that share one configuration. A name is held by one writer or by any number of
// readers, each with a [Lease] of its own: a dead reader is in the way until its
// own lease ends, and no longer. Make one RWMutex and use it for every name.
//
// As with sync.RWMutex the plain methods are the writer's, and those that end in
// Shared the readers'. An RWMutex and a [Mutex] with the same name are the same
// lock: an acquisition of the Mutex is that of a writer, without preference.
//
// Writers are preferred: while a writer waits in Acquire, no new reader is let
// in; those who read go on. The writer says each second that it still waits, so
// one that died keeps readers out for 3 s at most. A reader must not acquire
// again what it has, for a writer that came in between would wait for the first
// lease and keep out the second: Do and DoShared with the lease's own ctx enter it
// instead. A writer may so read and write; a reader that would write gets
// [ErrUpgrade].
//
// Writers' tokens rise as those of a Mutex. Readers carry the token of the last
// writer: a resource that refuses smaller tokens than it has seen refuses
// readers that a later writer has overtaken.
//
// All methods may be called by many goroutines at once. An RWMutex holds no
// resources of its own between calls and need not be closed.
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

// Do runs fn while it holds the lock called name as the only one, as [Mutex.Do]
// does.
func (rw *RWMutex) Do(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	t, err := rw.target(name, writing{})
	if err != nil {
		return err
	}
	return rw.do(ctx, t, fn)
}

// DoShared runs fn while it holds the lock called name with other readers, as
// [Mutex.Do] does.
func (rw *RWMutex) DoShared(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	t, err := rw.target(name, reading{})
	if err != nil {
		return err
	}
	return rw.do(ctx, t, fn)
}

// Acquire acquires the lock called name as the only one. It waits, as
// [Mutex.Acquire] does, and keeps new readers out meanwhile: each second that it
// waits costs one command.
func (rw *RWMutex) Acquire(ctx context.Context, name string) (*Lease, error) {
	t, err := rw.target(name, writing{})
	if err != nil {
		return nil, err
	}
	return rw.lease(ctx, t)
}

// AcquireShared acquires the lock called name with other readers. It waits, as
// [Mutex.Acquire] does, while a writer holds the lock or waits for it.
func (rw *RWMutex) AcquireShared(ctx context.Context, name string) (*Lease, error) {
	t, err := rw.target(name, reading{})
	if err != nil {
		return nil, err
	}
	return rw.lease(ctx, t)
}

// TryAcquire acquires the lock called name if nobody holds it. What it returns
// is that of [Mutex.TryAcquire]; when readers hold the lock, what remains is that
// of the reader whose lease ends last, and the label is of the one that came
// first.
func (rw *RWMutex) TryAcquire(ctx context.Context, name string) (*Lease, *Busy, error) {
	t, err := rw.target(name, writing{})
	if err != nil {
		return nil, nil, err
	}
	return rw.try(ctx, t)
}

// TryAcquireShared acquires the lock called name with other readers, if no
// writer holds it or waits for it. What it returns is that of
// [Mutex.TryAcquire]; when a writer waits, what remains is how long that keeps
// readers out unless it goes on waiting.
func (rw *RWMutex) TryAcquireShared(ctx context.Context, name string) (*Lease, *Busy, error) {
	t, err := rw.target(name, reading{})
	if err != nil {
		return nil, nil, err
	}
	return rw.try(ctx, t)
}

// AcquireRequest acquires as Acquire does, but gives a [Handle]: see
// [Mutex.AcquireRequest]. LOCK.EXTEND and LOCK.RELEASE extend and release it.
func (rw *RWMutex) AcquireRequest(ctx context.Context, name string, r Request) (Handle, error) {
	t, err := rw.target(name, writing{})
	if err != nil {
		return Handle{}, err
	}
	return rw.request(ctx, t, r)
}

// AcquireSharedRequest acquires as AcquireShared does, but gives a [Handle]: see
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

// writing is the kind of a writer: that of a Mutex, and a claim.
type writing struct{}

// acquire names the keys of the release too, which the script doesn't use. So where these
// have several servers, in a pool without hash_tag, nothing is acquired that can't be released.
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
