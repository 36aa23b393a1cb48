package lock

import (
	"context"
	"time"

	"github.com/redoubt-go/redoubt"
)

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
//
// On the server the readers together are one holder of the lock, so that every
// script of a Mutex knows what to think of them: in the lock's hash, id is a
// random name of the group, shared is the same, and until is when the last of
// them ends. Each reader is in a sorted set, "<prefix>:{<name>}:readers", id by
// until; a score below 0 means that it is over, as with a [Semaphore]. Since
// when each reads, and its label, are in the hash "<prefix>:{<name>}:labels". In
// the lock's hash are also claim, until when the writer claim_by keeps new readers
// out, and claim_fence, the fence that it saw.
type RWMutex struct{ *family }

// NewRW returns an RWMutex on client. It sends nothing.
func NewRW(client *redoubt.Client, opts Options) (*RWMutex, error) {
	f, err := newFamily(client, opts)
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

// AcquireRequest acquires as Acquire does, but gives no [Lease]: see
// [Mutex.AcquireRequest]. [RWExtendCmd] and [RWReleaseCmd] extend and release
// it.
func (rw *RWMutex) AcquireRequest(ctx context.Context, name string, r Request) (Attempt, error) {
	t, err := rw.target(name, writing{})
	if err != nil {
		return Attempt{}, err
	}
	return rw.request(ctx, t, r)
}

// AcquireSharedRequest acquires as AcquireShared does, but gives no [Lease]: see
// AcquireRequest.
func (rw *RWMutex) AcquireSharedRequest(ctx context.Context, name string, r Request) (Attempt, error) {
	t, err := rw.target(name, reading{})
	if err != nil {
		return Attempt{}, err
	}
	return rw.request(ctx, t, r)
}

func (rw *RWMutex) target(name string, k kind) (target, error) {
	keys, err := rwKeys(rw.client, name)
	return target{k, name, keys}, err
}

func rwKeys(client *redoubt.Client, name string) ([]string, error) {
	return keys(client, name, lockPart, "readers", "labels")
}

// writing is the kind of a writer: that of a Mutex, and a claim.
type writing struct{}

// acquire names the keys of the release too, which the script doesn't use. So where these
// have several servers, in a pool without hash_tag, nothing is acquired that can't be released.
func (writing) acquire(keys []string, r Request, waiter string) redoubt.Cmd {
	return acquireCmd(keys, r.ID, r.TTL, r.Label, waiter)
}

func (writing) extend(keys []string, id string, ttl time.Duration) redoubt.Cmd {
	return extendCmd(keys[:1], id, ttl)
}

func (writing) release(keys []string, id, waiter string, void bool) redoubt.Cmd {
	return rwReleaseCmd(keys, id, waiter, flag(void))
}

func (writing) claim(keys []string, id string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: rwClaimScript,
		Keys:   keys[:1],
		Args:   []string{id, micros(claimFor)},
		Flags:  redoubt.Idempotent,
	}
}

func (writing) unclaim(keys []string, id, waiter string) redoubt.Cmd {
	return rwReleaseCmd(keys, id, waiter, "4")
}

// reading is the kind of a reader.
type reading struct{}

func (reading) acquire(keys []string, r Request, waiter string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: rwReadScript,
		Keys:   keys,
		Args:   []string{r.ID, micros(r.TTL), r.Label, waiter, NewID()},
		Flags:  redoubt.Idempotent,
	}
}

func (reading) extend(keys []string, id string, ttl time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: rwExtendScript,
		Keys:   keys,
		Args:   []string{id, micros(ttl)},
		Flags:  redoubt.Idempotent,
	}
}

func (reading) release(keys []string, id, waiter string, void bool) redoubt.Cmd {
	how := "0"
	if void {
		how = "2"
	}
	return rwReleaseCmd(keys, id, waiter, how)
}

// rwReleaseCmd is rw_release.lua, which says what how may be.
func rwReleaseCmd(keys []string, id, waiter, how string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: rwReleaseScript,
		Keys:   keys,
		Args:   []string{id, waiter, how},
		Flags:  redoubt.Idempotent,
	}
}

// ReadCmd tries to acquire the lock called name with other readers. The command
// is idempotent: repeated with the same id it gives the same answer.
// [ReadAttempt] reads the reply. For a writer there is [AcquireCmd].
func ReadCmd(client *redoubt.Client, name string, r Request) (redoubt.Cmd, error) {
	keys, err := rwKeys(client, name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	return reading{}.acquire(keys, r, ""), nil
}

// RWExtendCmd is [ExtendCmd] for the acquisition id of a writer or a reader.
func RWExtendCmd(client *redoubt.Client, name, id string, ttl time.Duration) (redoubt.Cmd, error) {
	keys, err := rwKeys(client, name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	return reading{}.extend(keys, id, ttl), nil
}

// RWReleaseCmd is [ReleaseCmd] for the acquisition id of a writer or a reader.
func RWReleaseCmd(client *redoubt.Client, name, id string) (redoubt.Cmd, error) {
	keys, err := rwKeys(client, name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	return reading{}.release(keys, id, "", false), nil
}
