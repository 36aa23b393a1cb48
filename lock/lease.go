package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Lease is a lock held for a time. It is over when it is released, or when
// its deadline passes before the server has confirmed an extension.
//
// The deadline is counted on this process's monotonic clock from before the
// last confirmed call was sent, less one part in a hundred for clocks that run
// at different speeds. So it passes here before it passes on the server,
// however long the network took. A process that is stopped (SIGSTOP) sees only
// afterwards that it has passed, and one on a machine that was suspended may
// not see it at all, since the clock stood still too: a resource that must not
// be touched by two needs the fencing [Lease.Token].
//
// All methods may be called by many goroutines at once.
type Lease struct {
	mutex *Mutex
	name  string
	key   string
	id    string
	fence int64
	done  chan struct{}

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer // fires at the deadline
	err      error       // why the lease is over; nil while it is held
	released bool        // the server has confirmed the release
	onEnd    map[*context.CancelCauseFunc]struct{}

	// Owned by the renewer, guarded by its mutex.
	renewal renewal
}

// drift is the part of a lease that is given away for clocks that run at
// different speeds.
func drift(ttl time.Duration) time.Duration { return ttl / 100 }

func newLease(m *Mutex, name, key, id string, fence int64, sent time.Time, ttl time.Duration) *Lease {
	l := &Lease{mutex: m, name: name, key: key, id: id, fence: fence, done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = sent.Add(ttl - drift(ttl))
	l.timer = time.AfterFunc(time.Until(l.deadline), l.expire)
	if !m.opts.NoRenew {
		m.renewer.add(l, sent.Add(m.opts.TTL/3))
	}
	return l
}

// Name returns the lock's name.
func (l *Lease) Name() string { return l.name }

// ID returns the 32 hexadecimal digits that name this acquisition. Who knows
// them can extend and release the lease.
func (l *Lease) ID() string { return l.id }

// Token returns the fencing token: a number that is larger than that of any
// earlier lease on the same name, about the server's time in microseconds at
// the acquisition. Store it with what the lock protects and refuse writes that
// carry a smaller one.
func (l *Lease) Token() int64 { return l.fence }

// Deadline returns when the lease is over unless it is extended.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Done returns a channel that is closed when the lease is over.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns nil while the lease is held, [ErrReleased] after Release, and
// otherwise an error that matches [ErrNotHeld] and says why it was lost.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check()
}

// check is Err with l.mu held. The deadline decides, not the timer, which may
// fire late.
func (l *Lease) check() error {
	if l.err == nil && !time.Now().Before(l.deadline) {
		l.end(fmt.Errorf("%w: the lease ran out at its deadline%s", ErrNotHeld, l.renewal.why()))
	}
	return l.err
}

// Context returns a context derived from parent that ends when the lease is
// over. Its cause (context.Cause) is then what [Lease.Err] returns.
func (l *Lease) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(); err != nil {
		cancel(err)
		return ctx
	}
	if l.onEnd == nil {
		l.onEnd = make(map[*context.CancelCauseFunc]struct{})
	}
	l.onEnd[&cancel] = struct{}{}
	context.AfterFunc(ctx, func() { // a parent may end long before the lease
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.onEnd, &cancel)
	})
	return ctx
}

// Extend makes the lease last at least ttl from now, at the server: it never
// makes it shorter. It returns an error that matches [ErrNotHeld] when the
// lease is over: then it stays over. After any other error the lease lasts at
// least until its old deadline. One round trip.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := CheckTTL(ttl); err != nil {
		return err
	}
	if err := l.Err(); err != nil {
		return notHeld(err)
	}
	sent := time.Now()
	held, granted, err := ReadExtend(l.mutex.client.Do(ctx, ExtendCmd(l.key, l.id, ttl)))
	if err != nil {
		return err
	}
	return l.extended(sent, held, granted)
}

// extended takes in the server's answer to an extension sent at sent.
func (l *Lease) extended(sent time.Time, held bool, ttl time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return notHeld(l.err)
	}
	if !held {
		l.end(fmt.Errorf("%w: the server says that it ran out or was taken away", ErrNotHeld))
		return l.err
	}
	// Answers may overtake each other. The server never makes a lease shorter,
	// so the latest deadline that any of them gave holds.
	if deadline := sent.Add(ttl - drift(ttl)); deadline.After(l.deadline) {
		l.deadline = deadline
		l.timer.Reset(time.Until(deadline))
	}
	return l.check()
}

// expire is called by the timer. The deadline may have moved since.
func (l *Lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	if l.check() == nil {
		l.timer.Reset(time.Until(l.deadline))
	}
}

// end ends the lease for the given reason. l.mu is held.
func (l *Lease) end(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	l.timer.Stop()
	close(l.done)
	for cancel := range l.onEnd {
		(*cancel)(err)
	}
	l.onEnd = nil
	l.mutex.renewer.remove(l)
}

// Release gives the lock back and wakes one waiter. The lease is over when
// Release is called, whatever it returns. It returns an error that matches
// [ErrNotHeld] when the lease was lost before: another may have held the lock
// meanwhile. After any other error the lock is free at the latest when its TTL
// ends, and Release may be called again. After a success it does nothing.
//
// A ctx that has ended does not keep Release from trying: it is then given
// 3 s. If ctx ends while Release runs, it goes on in the background for as long.
// One round trip.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	lost := l.check()
	l.end(ErrReleased)
	released := l.released
	l.mu.Unlock()
	if released {
		return nil
	}
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
	}
	ok, err := ReadRelease(l.mutex.client.Do(ctx, ReleaseCmd(l.key, l.id)))
	if err != nil && ctx.Err() != nil {
		l.mutex.cleanUp(ctx, ReleaseCmd(l.key, l.id))
	}
	switch {
	case errors.Is(lost, ErrNotHeld):
		return lost // whatever the server says: the holder had to stop before
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%w: it ran out or was taken away before the release", ErrNotHeld)
	}
	l.mu.Lock()
	l.released = true
	l.mu.Unlock()
	return nil
}

// notHeld returns err as one that matches ErrNotHeld.
func notHeld(err error) error {
	if errors.Is(err, ErrNotHeld) {
		return err
	}
	return fmt.Errorf("%w: it was released", ErrNotHeld)
}
