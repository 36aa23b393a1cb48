package lock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt"
)

// MaxLimit is the largest number of permits of a [Semaphore].
const MaxLimit = 1_000_000

// A Semaphore is a family of counting semaphores on a server, each with a name,
// that share one configuration. Of the permits of a name at most limit are held
// at a time, each by a [Lease] of its own, with its own end: what a dead holder
// had comes back alone. Make one Semaphore and use it for every name.
//
// The limit is an argument of the call, since it belongs to the name. Callers
// who disagree are each held to their own: one is let in when fewer permits are
// taken than its limit says. So a lower limit takes no permit away, but lets
// nobody new in until enough have come back. One that waits with a higher limit
// than those before it in the queue may be told of a free permit only when the
// lease that it saw ends, after 30 s at most.
//
// [Semaphore.Do] is what most callers should use. All methods may be called by
// many goroutines at once. A Semaphore holds no resources of its own between
// calls and need not be closed.
//
// On the server, "<prefix>:{<name>}:sem" is a hash: fence, the last fencing
// token; head, tail, the places and the waiters as in a lock; "=<id>", the token
// of the permit with that id; "<token>", its label. Beside it is a sorted set,
// "<prefix>:{<name>}:permits", of "=<id>" by until when: in µs since 1970, by the
// server's clock. A score below 0 is that of an acquisition that is over: minus
// twice the time at which it ended, and one less if it was released rather than
// lost. The last 128 are kept, so that no late copy of them takes a permit.
type Semaphore struct{ *family }

// NewSemaphore returns a Semaphore on client. It sends nothing.
func NewSemaphore(client *redoubt.Client, opts Options) (*Semaphore, error) {
	f, err := newFamily(client, opts)
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

// Acquire takes a permit of the semaphore called name. It waits while limit or
// more are taken, as [Mutex.Acquire] does: until ctx ends, and in no promised
// order. Callers of one client that wait for the same name stand in one line,
// whatever their limits. It costs one round trip when a permit is free.
func (s *Semaphore) Acquire(ctx context.Context, name string, limit int) (*Lease, error) {
	t, err := s.target(name, limit)
	if err != nil {
		return nil, err
	}
	return s.lease(ctx, t)
}

// TryAcquire takes a permit of the semaphore called name if fewer than limit are
// taken. Exactly one of the three results is set: the lease; when none is free,
// who holds the permit that ends first; or an error, as of [Mutex.TryAcquire].
// It costs one round trip.
func (s *Semaphore) TryAcquire(ctx context.Context, name string, limit int) (*Lease, *Busy, error) {
	t, err := s.target(name, limit)
	if err != nil {
		return nil, nil, err
	}
	return s.try(ctx, t)
}

// AcquireRequest takes a permit as Acquire does, but gives no [Lease]: see
// [Mutex.AcquireRequest]. [PermitExtendCmd] and [PermitReleaseCmd] extend and
// release it. This is how SEM.ACQUIRE waits.
func (s *Semaphore) AcquireRequest(ctx context.Context, name string, limit int, r Request) (Attempt, error) {
	t, err := s.target(name, limit)
	if err != nil {
		return Attempt{}, err
	}
	return s.request(ctx, t, r)
}

func (s *Semaphore) target(name string, limit int) (target, error) {
	if err := CheckLimit(limit); err != nil {
		return target{}, err
	}
	keys, err := semaphoreKeys(s.client, name)
	return target{permit{limit}, name, keys}, err
}

// CheckLimit returns an error for a limit that is not between 1 and [MaxLimit].
func CheckLimit(limit int) error {
	if limit < 1 || limit > MaxLimit {
		return fmt.Errorf("lock: limit is %d; want 1 to %d", limit, MaxLimit)
	}
	return nil
}

// semaphorePart ends the key of a semaphore.
const semaphorePart = "sem"

func semaphoreKeys(client *redoubt.Client, name string) ([]string, error) {
	return keys(client, name, semaphorePart, "permits")
}

// permit is the kind of a semaphore.
type permit struct{ limit int }

func (p permit) acquire(keys []string, r Request, waiter string) redoubt.Cmd {
	return redoubt.Cmd{
		Script: semAcquireScript,
		Keys:   keys,
		Args:   []string{member(r.ID), micros(r.TTL), r.Label, waiter, strconv.Itoa(p.limit)},
		Flags:  redoubt.Idempotent,
	}
}

func (permit) extend(keys []string, id string, ttl time.Duration) redoubt.Cmd {
	return redoubt.Cmd{
		Script: semExtendScript,
		Keys:   keys,
		Args:   []string{member(id), micros(ttl)},
		Flags:  redoubt.Idempotent,
	}
}

func (p permit) release(keys []string, id, waiter string, void bool) redoubt.Cmd {
	if id != "" {
		id = member(id)
	}
	return redoubt.Cmd{
		Script: semReleaseScript,
		Keys:   keys,
		Args:   []string{id, waiter, flag(void), strconv.Itoa(p.limit)},
		Flags:  redoubt.Idempotent,
	}
}

// member is how an id stands among other fields: none of those begins so.
func member(id string) string { return "=" + id }

// PermitCmd tries to take a permit of the semaphore called name for the
// acquisition id. The command is idempotent: repeated with the same id it gives
// the same answer. [ReadAttempt] reads the reply.
func PermitCmd(client *redoubt.Client, name string, limit int, r Request) (redoubt.Cmd, error) {
	keys, err := semaphoreKeys(client, name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	return permit{limit}.acquire(keys, r, ""), nil
}

// PermitExtendCmd makes the permit of the acquisition id last ttl from now, or
// longer if it does so already, if it is still held. [ReadExtend] reads the
// reply.
func PermitExtendCmd(client *redoubt.Client, name, id string, ttl time.Duration) (redoubt.Cmd, error) {
	keys, err := semaphoreKeys(client, name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	return permit{}.extend(keys, id, ttl), nil
}

// PermitReleaseCmd gives the permit of the acquisition id back and wakes one
// waiter. Repeated, it gives the same answer until 128 other acquisitions on the
// name are over. [ReadRelease] reads the reply.
func PermitReleaseCmd(client *redoubt.Client, name, id string) (redoubt.Cmd, error) {
	keys, err := semaphoreKeys(client, name)
	if err != nil {
		return redoubt.Cmd{}, err
	}
	return permit{}.release(keys, id, "", false), nil
}
