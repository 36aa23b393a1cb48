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

// A Quorum holds named locks on several independent masters, servers that know
// nothing of each other. The holder of a lock holds it on a majority of the masters, so
// the lock survives the loss of the others: three masters survive the death of one, five
// the death of two. It is the algorithm Redlock, with tokens that rise. Make one Quorum,
// with the masters in the same order in every process, and use it for every name.
//
// A lease is acquired on all masters at the same time. It lasts as long as a majority of
// them have confirmed, each counted as for a [Mutex]: from before the call was sent, less
// 1%. A caller without a majority gives back what it got. Each master is renewed
// separately. While the lease lasts, a master that returns, or that lost its part of the
// lease, is taken again with the same id, unless [Mutex.ForceRelease] took the lock away
// there: force on a majority of the masters ends the lease.
//
// The token is the largest one that a master of the majority gave. A majority has stored
// it before the lease is returned. Any two majorities share a master, so later leases
// have larger tokens, whatever the masters' clocks show.
//
// The promises need masters that don't forget. A master that restarts empty may grant a
// lock that is held, so that two majorities exist. Let it wait for the largest TTL in use
// before it restarts, or give it an append-only file with fsync always. After a majority
// was empty, tokens go on rising only if the clocks differ by less than that time. A
// master must not have replicas that take over. The package documentation says what
// happens with processes that pause and clocks that jump; one clock that jumps costs one
// master.
//
// On each master it is the lock of a [Mutex] with the same name. The Info of that Mutex
// shows the master's token, which may be smaller than the token of the lease. A Mutex on
// the Client of one master shares that Client's place in the queue there: use another
// Client for it, or other names.
//
// All methods may be called by many goroutines at once. A Quorum holds no resources
// between calls and need not be closed.
type Quorum struct{ *family }

// NewQuorum returns a Quorum with one client for each master, 1 to [MaxMasters],
// preferably an odd number. It sends nothing. The error joins
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
			errs = append(errs, fmt.Errorf("lock: master %d: the client is given twice", i))
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
	var key quorumQueuesKey
	copy(key[:], clients)
	q.queues = first.client.Shared(key, func() any { return new(waitQueues) }).(*waitQueues)
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
// results is set: the lease; the holder, when other holders left no majority; or an
// error. The error matches [ErrNoMajority] when too many masters did not answer within a
// third of the TTL, at most 3 s. Without a majority, what it got is given back. Two
// callers that try at the same moment may both find the lock busy.
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

// Acquire acquires the lock called name. It waits while others hold it. When ctx ends it
// returns the error of ctx, and its traces on the masters are removed in the background,
// at the latest by the TTL. It doesn't wait for unreachable masters: these are an error,
// as in [Quorum.TryAcquire].
//
// It costs two round trips when the lock is free. Otherwise it waits for a wake-up from a
// master, at most until the holder's lease would end. When no contender won a majority it
// backs off for a random time, up to a quarter of a second. Among all callers that wait
// for a name with one Client, only the first asks the masters.
func (q *Quorum) Acquire(ctx context.Context, name string) (lease *Lease, err error) {
	ts, err := q.targets(name)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if q.queues.empty(ts[0].key()) {
		lease, _, err := q.attempt(ctx, ts, nil)
		if lease != nil || err != nil && !errors.Is(err, ErrNotHeld) {
			return lease, err
		}
	}
	defer q.masters[0].waited(ctx, ts[0], time.Now(), &err)
	turn := q.queues.join(ts[0].key())
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

// need is the number of masters in a majority.
func (q *Quorum) need() int { return len(q.masters)/2 + 1 }

// quorate is the kind of the part of a lease on one master.
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
