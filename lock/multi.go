package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// MultiOptions configure a [Multi]. The zero value is ready to use.
type MultiOptions struct {
	// TTL is how long the server keeps a lease that is not renewed, from 1 ms to
	// a year. Defaults to 30 s.
	TTL time.Duration
	// NoRenew turns automatic renewal off: the caller calls [Lease.Extend].
	NoRenew bool
	// Label tells other clients who holds the locks. At most 256 bytes. Defaults
	// to none.
	Label string
}

// A Multi acquires the locks of several names, all or none, with one [Lease] that
// ends as soon as one of the locks is lost. A [Mutex] uses the same locks for the
// same names. Make one Multi and use it for all sets of names.
//
// Every Multi takes names in one order, by hash slot and then by name, so Multis whose
// sets overlap never wait for each other. Free locks are taken at once, with one
// script for the names of a slot and one round trip for each server. If a lock is
// busy, the locks behind it in the order are given back, and the locks before it are
// held and renewed until it is free. Names that begin alike up to a '}' share a slot:
// "42}cart" and "42}stock".
//
// All methods may be called by many goroutines at once. A Multi holds no resources
// between calls and need not be closed.
type Multi struct{ *family }

// NewMulti returns a Multi on client. It sends nothing. The error joins all that
// is wrong with the options.
func NewMulti(client *redoubt.Client, opts MultiOptions) (*Multi, error) {
	f, err := newFamily(client, leaseOptions(opts))
	if err != nil {
		return nil, err
	}
	return &Multi{f}, nil
}

// Do runs fn while it holds all the locks called names, 1 to [MaxNames], as
// [Mutex.Do] does. It enters the leases on any of the names that ctx carries, and
// acquires the missing locks. Beware: these are then taken out of order, and two such
// callers can wait for each other.
func (m *Multi) Do(ctx context.Context, names []string, fn func(ctx context.Context) error) error {
	targets, err := m.targets(names)
	if err != nil {
		return err
	}
	missing := names[:0:0]
	for _, t := range targets {
		outer, err := m.carriedBy(ctx, t)
		if err != nil {
			return err
		}
		if outer == nil {
			missing = append(missing, t.name)
			continue
		}
		inner := fn
		fn = func(ctx context.Context) error { return outer.enter(ctx, inner) }
	}
	if len(missing) == 0 {
		return fn(ctx)
	}
	lease, err := m.Acquire(ctx, missing)
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// TryAcquire acquires all the locks called names if all are free. Exactly one of the
// three results is set: the lease; the holder of the first busy lock, and then nothing
// is held; or an error, as in [Mutex.TryAcquire]. It costs one round trip, on a
// cluster to all nodes at the same time; when a lock is busy, another one gives back
// the locks in other slots.
func (m *Multi) TryAcquire(ctx context.Context, names []string) (*Lease, *Busy, error) {
	targets, err := m.targets(names)
	if err != nil {
		return nil, nil, err
	}
	l := &Lease{family: m.family, done: make(chan struct{})}
	_, at, busy, err := m.take(ctx, l, targets)
	switch {
	case err != nil:
		m.drop(ctx, l)
		return nil, nil, err
	case at >= 0:
		m.giveBack(ctx, l)
		busy.wait = func(ctx context.Context) (*Lease, error) { return m.Acquire(ctx, names) }
		return nil, &busy, nil
	}
	if l.give() != nil {
		m.drop(ctx, l)
		return nil, nil, errTooLate
	}
	m.finish(l)
	return l, nil, nil
}

// Acquire acquires all the locks called names. It waits while others hold one of
// them. When ctx ends it returns the error of ctx, and gives back what it has taken in
// the background, at the latest by the TTL. It costs one round trip when all are free.
func (m *Multi) Acquire(ctx context.Context, names []string) (*Lease, error) {
	targets, err := m.targets(names)
	if err != nil {
		return nil, err
	}
	for {
		l := &Lease{family: m.family, done: make(chan struct{})}
		waited, err := m.fill(ctx, l, targets)
		if err == nil && waited && m.opts.NoRenew {
			err = l.Extend(ctx, m.opts.TTL) // automatic renewal ends here
		}
		if err == nil {
			if err = l.give(); err == nil {
				m.finish(l)
				return l, nil
			}
		}
		m.drop(ctx, l)
		if ctx.Err() != nil || !errors.Is(err, ErrNotHeld) {
			return nil, err
		}
		// A lock ran out during the wait for another one: try again.
	}
}

// targets returns names as targets, in the order in which they are taken.
func (m *Multi) targets(names []string) ([]target, error) {
	if len(names) < 1 || len(names) > MaxNames {
		return nil, fmt.Errorf("lock: %d names; want 1 to %d", len(names), MaxNames)
	}
	targets := make([]target, len(names))
	for i, name := range names {
		keys, err := wire.Keys(m.client, name)
		if err != nil {
			return nil, err
		}
		targets[i] = target{exclusive{}, name, keys}
	}
	slices.SortFunc(targets, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.slot(), b.slot()), cmp.Compare(a.name, b.name))
	})
	for i := range targets[1:] {
		if targets[i].name == targets[i+1].name {
			return nil, fmt.Errorf("lock: the name %q is given twice", targets[i].name)
		}
	}
	return targets, nil
}

// fill adds targets to l, which has none yet, and waits for busy ones. After an error
// l keeps what it has.
func (m *Multi) fill(ctx context.Context, l *Lease, targets []target) (waited bool, err error) {
	next := len(targets) // how many to take at once
	for len(targets) > 0 {
		first, at, _, err := m.take(ctx, l, targets[:next])
		if err != nil {
			return waited, err
		}
		targets = targets[first:]
		if next = len(targets); at < 0 {
			continue
		}
		if at > first { // the locks before it in its slot first
			next = at - first
			continue
		}
		// Stop waiting when a held lock is lost.
		wait := ctx
		if len(l.all()) > 0 {
			wait = l.Context(ctx)
		}
		waited = true
		r, sent, a, err := m.family.take(wait, targets[0])
		if err != nil {
			if wait.Err() != nil && ctx.Err() == nil {
				err = context.Cause(wait)
			}
			return waited, err
		}
		l.add(targets[0], r.ID, sent, a, true)
		targets = targets[1:]
		next = len(targets)
	}
	return waited, nil
}

// take tries to take all targets. It adds to l the targets in the slots before the
// slot of the first busy one: the number of these is first. at is the index of the busy
// target, or -1.
func (m *Multi) take(ctx context.Context, l *Lease, targets []target) (first, at int, busy Busy, err error) {
	groups := slices.Collect(m.together(targets))
	ids, cmds := make([]string, len(groups)), make([]redoubt.Cmd, len(groups))
	for i, group := range groups {
		ids[i] = wire.NewID()
		cmds[i] = multiAcquireCmd(group, ids[i], m.opts)
	}
	sent := time.Now()
	at = -1
	start := 0 // of the group among targets
	var undo []redoubt.Cmd
	for i, reply := range m.send(ctx, cmds) {
		group := groups[i]
		got, where, fences, rerr := wire.ReadMulti(reply, len(group))
		switch {
		case errors.Is(rerr, redoubt.ErrUnknownOutcome):
			for _, t := range group {
				m.undo(ctx, t, ids[i])
			}
			err = rerr
		case rerr != nil:
			err = rerr
		case got.Status == wire.Over: // at least one is over, taken away perhaps
			for _, t := range group {
				undo = append(undo, t.void(ids[i]))
			}
			err = cmp.Or(err, errTooLate)
		case got.Status == wire.Held && at < 0:
			t := group[where-1]
			first, at, busy = start, start+where-1, Busy{Name: t.name, Remaining: got.TTL, Token: got.Token, Label: got.Label}
		case got.Status == wire.Acquired:
			for j, t := range group {
				if at >= 0 {
					undo = append(undo, t.release(ids[i]))
					continue
				}
				l.add(t, ids[i], sent, wire.Attempt{Token: fences[j], TTL: got.TTL}, true)
			}
		}
		start += len(group)
	}
	m.sendOrCleanUp(ctx, undo)
	if at < 0 {
		first = len(targets)
	}
	return first, at, busy, err
}

// together yields the runs of targets that one script can take: their keys share a slot, and also the node. On a
// Ring of go-redis, which knows no slots, they may be on several.
func (m *Multi) together(targets []target) func(yield func([]target) bool) {
	return func(yield func([]target) bool) {
		for start := 0; start < len(targets); {
			end := start + 1
			for end < len(targets) && targets[end].slot() == targets[start].slot() &&
				m.client.Node(targets[end].key()) == m.client.Node(targets[start].key()) {
				end++
			}
			if !yield(targets[start:end]) {
				return
			}
			start = end
		}
	}
}

// sendOrCleanUp sends cmds now, and repeats in the background the ones that fail.
func (m *Multi) sendOrCleanUp(ctx context.Context, cmds []redoubt.Cmd) {
	for i, reply := range m.send(ctx, cmds) {
		if reply.Err != nil {
			m.cleanUp(ctx, cmds[i])
		}
	}
}

// releases ends l and returns what releases it.
func (l *Lease) releases() (cmds []redoubt.Cmd) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(ErrReleased)
	for _, h := range l.parts {
		cmds = append(cmds, h.release(h.id))
	}
	return cmds
}

// giveBack releases what l holds.
func (m *Multi) giveBack(ctx context.Context, l *Lease) { m.sendOrCleanUp(ctx, l.releases()) }

// drop releases what l holds in the background.
func (m *Multi) drop(ctx context.Context, l *Lease) {
	if cmds := l.releases(); len(cmds) > 0 {
		m.cleanUp(ctx, cmds...)
	}
}

// finish prepares l for the caller, who may want to renew it by hand.
func (m *Multi) finish(l *Lease) {
	if m.opts.NoRenew {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stopRenewal()
	}
}

func multiAcquireCmd(group []target, id string, opts leaseOptions) redoubt.Cmd {
	keys := make([]string, len(group))
	for i, t := range group {
		keys[i] = t.key()
	}
	return wire.MultiCmd(keys, wire.Request{ID: id, TTL: opts.TTL, Label: opts.Label})
}
