package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// QuorumOptions configure a [Quorum]. The zero value is ready to use.
type QuorumOptions struct {
	// TTL is how long the server keeps a lease that is not renewed, from 1 ms to
	// a year. Defaults to 30 s.
	TTL time.Duration
	// NoRenew turns automatic renewal off: the caller calls [Lease.Extend].
	NoRenew bool
	// Label tells other clients who holds the lock. At most 256 bytes. Defaults
	// to none.
	Label string
}

// A Quorum is a family of locks on several independent masters, servers that know
// nothing of each other: a lock is held by who holds it on a majority of them, so
// that it outlives the rest. It is the algorithm called Redlock, with tokens that
// rise. Three masters outlive the death of one, five that of two. Make one Quorum,
// with the masters in the same order in every process, and use it for every name.
//
// A lease is acquired on all masters at the same time. It lasts as long as a
// majority of them have confirmed, each counted as for a [Mutex], from before the
// call was sent and less one part in a hundred. Whoever gets no majority gives back
// what it got. Each master is renewed for itself; one that came back, or whose part
// of the lease was lost, is taken anew with the same id as long as the lease lasts,
// unless it was taken away there by [Mutex.ForceRelease]: by force on a majority the
// lease ends.
//
// The token is the largest that a master of the majority gave. Before the lease is
// handed out, a majority has noted it. As any two majorities share a master, later
// leases have larger tokens, whatever the masters' clocks are.
//
// What is promised depends on masters that don't forget. One that restarts empty
// may grant a lock that is held, and then there can be two majorities: let it start
// again no earlier than the largest TTL in use after its death, or give it an
// append-only file with fsync always. After a majority has been empty the tokens
// go on rising only if the clocks agree better than that time. Nor may a master
// have replicas that take over. See the package documentation on processes that
// pause and on clocks that jump; one clock that jumps costs one master.
//
// On each master it is the lock of a [Mutex] of the same name there. Its Info
// shows that master's token, which may be smaller than the lease's. A Mutex on the
// client of one master shares that client's place among those who wait there: use
// another Client for it, or other names. All methods may
// be called by many goroutines at once. A Quorum holds no resources of its own
// between calls and need not be closed.
type Quorum struct{ *family }

// NewQuorum returns a Quorum on the masters that clients stand for, 1 to
// [MaxMasters] of them, preferably an odd number. It sends nothing. The error joins
// all that is wrong with the arguments.
func NewQuorum(clients []*redoubt.Client, opts QuorumOptions) (*Quorum, error) {
	var errs []error
	if len(clients) < 1 || len(clients) > MaxMasters {
		errs = append(errs, fmt.Errorf("lock: %d clients; want 1 to %d", len(clients), MaxMasters))
	}
	known := make(map[*redoubt.Client]bool)
	q := &family{}
	for i, client := range clients {
		f, err := newFamily(client, leaseOptions(opts))
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("master %d: %w", i, err))
		case known[client]:
			errs = append(errs, fmt.Errorf("lock: master %d: the client is there twice", i))
		default:
			q.masters = append(q.masters, f)
		}
		known[client] = true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	first := q.masters[0]
	q.opts, q.renewer = first.opts, first.renewer
	var key quorumLinesKey
	copy(key[:], clients)
	q.lines = first.client.Shared(key, func() any { return new(lines) }).(*lines)
	return &Quorum{q}, nil
}

// Do runs fn while it holds the lock called name, as [Mutex.Do] does.
func (q *Quorum) Do(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	ts, err := q.targets(name)
	if err != nil {
		return err
	}
	outer, err := q.carriedBy(ctx, ts[0])
	if err != nil {
		return err
	}
	if outer != nil {
		return outer.enter(ctx, fn)
	}
	lease, err := q.Acquire(ctx, name)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// TryAcquire acquires the lock called name if it is free. Exactly one of the three
// results is set: the lease; who holds the lock, when others have so many masters
// that no majority was left; or an error, one that matches [ErrNoMajority] when too
// many masters could not be reached within a third of the TTL, at most 3 s. What it
// got without a majority is given back. Two that try at the same moment may both
// find the lock busy.
//
// It costs two round trips, and a third when the lock is busy.
func (q *Quorum) TryAcquire(ctx context.Context, name string) (*Lease, *Busy, error) {
	ts, err := q.targets(name)
	if err != nil {
		return nil, nil, err
	}
	lease, votes, err := q.attempt(ctx, ts, nil)
	if err != nil || lease != nil {
		return lease, nil, err
	}
	busy := votes.busy()
	busy.Name, busy.wait = name, func(ctx context.Context) (*Lease, error) { return q.Acquire(ctx, name) }
	return nil, busy, nil
}

// Acquire acquires the lock called name. It waits while others hold it, until ctx
// ends, and then returns ctx's error; what it left on the masters is undone in the
// background, at the latest by the TTL. It doesn't wait for masters that can't be
// reached: that is an error, as of [Quorum.TryAcquire].
//
// It costs two round trips when the lock is free. Otherwise it waits for a wake-up
// from any master that the holder releases, and at most until the holder's lease
// would end. When nobody has a majority, because several try at once, it tries again
// after a random time, up to a quarter of a second. Of all the callers that wait for
// one name with one Client only the first asks the masters.
func (q *Quorum) Acquire(ctx context.Context, name string) (*Lease, error) {
	ts, err := q.targets(name)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if q.lines.empty(ts[0].key()) {
		lease, _, err := q.attempt(ctx, ts, nil)
		if lease != nil || err != nil && !errors.Is(err, ErrNotHeld) {
			return lease, err
		}
	}
	turn := q.lines.join(ts[0].key())
	defer q.leave(ctx, ts, turn)
	select {
	case <-turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return q.wait(ctx, ts)
}

// targets returns the lock called name on each master.
func (q *Quorum) targets(name string) ([]target, error) {
	ts := make([]target, len(q.masters))
	for i, m := range q.masters {
		keys, err := wire.Keys(m.client, name)
		if err != nil {
			return nil, err
		}
		ts[i] = target{exclusive{}, name, keys}
	}
	return ts, nil
}

// need is how many masters are a majority.
func (q *Quorum) need() int { return len(q.masters)/2 + 1 }

// quorate is the kind of a lease's part on one master.
type quorate struct {
	exclusive

	fence int64
	label string
}

// extend takes the lock anew if nobody has it on that master.
func (m quorate) extend(keys []string, id string, ttl time.Duration) redoubt.Cmd {
	return wire.QuorumExtendCmd(keys, id, ttl, m.label, m.fence)
}

// release always voids: an extension that takes the lock anew may be under way.
func (m quorate) release(keys []string, id, waiter string, _ bool) redoubt.Cmd {
	return wire.ReleaseCmd(keys, id, waiter, true)
}
