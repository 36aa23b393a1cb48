package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
)

var (
	// ErrNotHeld is matched when a lease is over that was not released: it
	// ran out, or the lock was forced away. Another may hold the lock now.
	ErrNotHeld = errors.New("lock: not held")

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
	// lease is renewed every third of its TTL until it is released, so that
	// it lasts as long as the process lives and reaches the server.
	NoRenew bool

	// Label is shown to whoever finds the lock busy, "host:pid" for instance.
	// At most 256 bytes. Defaults to nothing.
	Label string
}

// A Mutex is a family of locks on a server, each with a name, that share one
// configuration. At most one [Lease] on a name is valid at a time, among all
// processes that use the server. Make one Mutex and use it for every name.
//
// [Mutex.Do] is what most callers should use. All methods may be called by
// many goroutines at once. A Mutex holds no resources of its own between
// calls and need not be closed.
type Mutex struct {
	client  *redoubt.Client
	opts    Options
	lines   *lines
	renewer renewer
}

// New returns a Mutex on client. It sends nothing.
func New(client *redoubt.Client, opts Options) (*Mutex, error) {
	if opts.TTL == 0 {
		opts.TTL = DefaultTTL
	}
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("lock: client is nil"))
	}
	errs = append(errs, CheckTTL(opts.TTL))
	if len(opts.Label) > MaxLabel {
		errs = append(errs, fmt.Errorf("lock: label has %d bytes; want at most %d", len(opts.Label), MaxLabel))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	m := &Mutex{client: client, opts: opts}
	// The server knows the client, not its Mutexes, so they stand in one line.
	m.lines = client.Shared(linesKey{}, func() any { return new(lines) }).(*lines)
	m.renewer.client = client
	return m, nil
}

// CheckTTL returns an error for a TTL that is not between [MinTTL] and [MaxTTL].
func CheckTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return fmt.Errorf("lock: ttl is %v; want %v to %v", ttl, MinTTL, MaxTTL)
	}
	return nil
}

// Do runs fn while it holds the lock called name. It waits for the lock until
// ctx ends. The context that fn gets is derived from ctx and ends when the
// lease is lost, with a cause that matches [ErrNotHeld]: fn must then stop.
//
// Do returns what fn returns, joined with the error of the release: one that
// matches [ErrNotHeld] if the lease was lost while fn ran, for then another may
// have run at the same time. The lock is released when fn panics too.
//
// It costs two round trips, and the renewals.
func (m *Mutex) Do(ctx context.Context, name string, fn func(ctx context.Context) error) (err error) {
	lease, err := m.Acquire(ctx, name)
	if err != nil {
		return err
	}
	defer func() {
		if rerr := lease.Release(ctx); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	return fn(lease.Context(ctx))
}

// A Busy says who holds a lock that could not be acquired.
type Busy struct {
	// Remaining is how long the holder's lease lasts if it is not renewed.
	Remaining time.Duration
	// Fence is the holder's fencing token.
	Fence int64
	// Label is the holder's, as in [Options].
	Label string
}

// TryAcquire acquires the lock called name if it is free. Exactly one of the
// three results is set: the lease; who holds the lock, when it is busy; or an
// error. It costs one round trip.
//
// When the error matches redoubt.ErrUnknownOutcome the lock may have been
// acquired nevertheless. It is then released in the background, at the latest
// by its TTL.
func (m *Mutex) TryAcquire(ctx context.Context, name string) (*Lease, *Busy, error) {
	key, err := Key(m.client, name)
	if err != nil {
		return nil, nil, err
	}
	r := Request{ID: NewID(), TTL: m.opts.TTL, Label: m.opts.Label}
	sent, a, err := m.attempt(ctx, key, r, "")
	switch {
	case errors.Is(err, redoubt.ErrUnknownOutcome):
		m.cleanUp(ctx, voidCmd(key, r.ID))
		return nil, nil, err
	case err != nil:
		return nil, nil, err
	case a.Status == Acquired:
		return newLease(m, name, key, r.ID, a.Fence, sent, a.TTL), nil, nil
	case a.Status == Over:
		return nil, nil, fmt.Errorf("%w: the lease ran out before the reply came", ErrNotHeld)
	}
	return nil, &Busy{Remaining: a.TTL, Fence: a.Fence, Label: a.Label}, nil
}

// cleanUp sends cmd in the background, for a caller that has left. It does not
// depend on ctx, which may be what ended; whatever it can't reach within the
// time ends by itself with the TTL.
func (m *Mutex) cleanUp(ctx context.Context, cmd redoubt.Cmd) {
	m.client.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		_ = m.client.Do(ctx, cmd)
	})
}

// cleanUpTimeout bounds what is done on the server after the caller has left.
const cleanUpTimeout = 3 * time.Second

// Inspect returns the state of the lock called name: one round trip.
func (m *Mutex) Inspect(ctx context.Context, name string) (Info, error) {
	key, err := Key(m.client, name)
	if err != nil {
		return Info{}, err
	}
	return ReadInfo(m.client.Do(ctx, InfoCmd(key)))
}
