package lock

import (
	"context"
	"errors"
	"slices"
)

// Enter holds the lease once more, for a function that may be called with the lock held,
// by recursion for instance. It only counts, and sends nothing. The lock is released when
// Release and every leave have been called, in any order: the last call sends the
// release, with its own ctx. leave returns what [Lease.Release] would, and does nothing
// the second time.
//
// The error matches [ErrNotHeld] once the lease has ended, also when its deadline has
// just passed here. [Mutex.Do] enters the lease that its ctx carries.
func (l *Lease) Enter() (leave func(ctx context.Context) error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(); err != nil {
		return nil, notHeld(err)
	}
	l.entered++
	left := false
	return func(ctx context.Context) error {
		l.mu.Lock()
		if !left {
			left = true
			l.entered--
		}
		l.mu.Unlock()
		return l.part(ctx)
	}, nil
}

// part releases the lease once every caller has left it.
func (l *Lease) part(ctx context.Context) error {
	l.mu.Lock()
	lost := l.check()
	last := l.left && l.entered == 0
	l.mu.Unlock()
	switch {
	case last:
		return l.release(ctx)
	case errors.Is(lost, ErrNotHeld):
		return lost
	}
	return nil
}

// enter runs fn in a lease that ctx carries.
func (l *Lease) enter(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	leave, err := l.Enter()
	if err != nil {
		return err
	}
	defer func() {
		if lerr := leave(ctx); lerr != nil {
			err = errors.Join(err, lerr)
		}
	}()
	inner, cancel := l.context(ctx)
	defer cancel(nil) // ctx may live much longer than fn runs
	return fn(inner)
}

// carried is a lease that a context carries, and the leases of its parent.
type carried struct {
	lease *Lease
	outer *carried
}

type carriedKey struct{}

// FromContext returns the lease that ctx carries, or nil if it carries none. The function of a Do gets such a ctx, and
// [Lease.Context] returns one. If several leases are nested, it returns the innermost one. It sends nothing, and
// goroutines may call it at the same time. It returns a lease that has ended, too: see [Lease.Err].
//
// So the function of a Do gives the fencing token to the resource: lock.FromContext(ctx).Token().
func FromContext(ctx context.Context) *Lease {
	if c, _ := ctx.Value(carriedKey{}).(*carried); c != nil {
		return c.lease
	}
	return nil
}

func carry(ctx context.Context, l *Lease) context.Context {
	outer, _ := ctx.Value(carriedKey{}).(*carried)
	return context.WithValue(ctx, carriedKey{}, &carried{l, outer})
}

// carriedBy returns the lease on t that ctx carries, or nil. A lease that has been given
// back doesn't count: a goroutine that outlives it acquires the lock again.
func (f *family) carriedBy(ctx context.Context, t target) (*Lease, error) {
	c, _ := ctx.Value(carriedKey{}).(*carried)
	for ; c != nil; c = c.outer {
		if !c.lease.family.sameServers(f) {
			continue
		}
		parts := c.lease.all()
		i := slices.IndexFunc(parts, func(h *heldLease) bool { return h.key() == t.key() })
		if err := c.lease.Err(); i < 0 || errors.Is(err, ErrReleased) || errors.Is(err, ErrHandedOver) {
			continue
		}
		switch access(parts[i].kind) {
		case Exclusive:
			return c.lease, nil
		case Shared:
			if access(t.kind) == Exclusive {
				return nil, ErrUpgrade
			}
			return c.lease, nil
		case Free: // each Do takes a permit of its own
		}
	}
	return nil, nil
}

// sameServers reports whether both are on the same client, or on the same masters.
func (f *family) sameServers(o *family) bool {
	return f.client == o.client && slices.EqualFunc(f.masters, o.masters, func(a, b *family) bool { return a.client == b.client })
}

// access is how a kind holds a lock: Free when it holds one of several permits.
func access(k kind) Mode {
	switch k.(type) {
	case exclusive, fair, writing, quorate:
		return Exclusive
	case reading:
		return Shared
	}
	return Free
}
