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
// however long the network took. It can't pass while the process is stopped
// (SIGSTOP, a suspended machine) and so be noticed late: a resource that must
// not be touched by two needs the fencing [Lease.Token].
//
// All methods may be called by many goroutines at once.
type Lease struct {
	mutex *Mutex
	name  string
	keys  Keys
	id    string
	fence int64
	done  chan struct{}

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer // fires at the deadline
	err      error       // why the lease is over; nil while it is held
	released bool        // the server has confirmed the release
	onEnd    []context.CancelCauseFunc

	// Owned by the renewer, guarded by its mutex.
	renewal renewal
}

// drift is the part of a lease that is given away for clocks that run at
// different speeds.
func drift(ttl time.Duration) time.Duration { return ttl / 100 }

func newLease(m *Mutex, name string, keys Keys, id string, fence int64, sent time.Time, ttl time.Duration) *Lease {
	l := &Lease{mutex: m, name: name, keys: keys, id: id, fence: fence, done: make(chan struct{})}
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
	l.onEnd = append(l.onEnd, cancel)
	return ctx
}

// Extend makes the lease last ttl from now, at the server. It returns an error
// that matches [ErrNotHeld] when the lease is over: then it stays over. After
// any other error the lease lasts at least until its old deadline. One round
// trip.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := CheckTTL(ttl); err != nil {
		return err
	}
	if err := l.Err(); err != nil {
		return notHeld(err)
	}
	sent := time.Now()
	held, granted, err := ReadExtend(l.mutex.client.Do(ctx, ExtendCmd(l.keys, l.id, ttl)))
	if err != nil {
		// The extension may have shortened the lease on the server.
		l.mu.Lock()
		defer l.mu.Unlock()
		if short := sent.Add(ttl - drift(ttl)); short.Before(l.deadline) {
			l.move(short)
		}
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
	l.move(sent.Add(ttl - drift(ttl)))
	return l.check()
}

// move sets the deadline. l.mu is held.
func (l *Lease) move(deadline time.Time) {
	l.deadline = deadline
	l.timer.Reset(time.Until(deadline))
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
	for _, cancel := range l.onEnd {
		cancel(err)
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
// 3 s. One round trip.
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
	publish, err := l.mutex.client.PublishVerb(ctx)
	if err != nil {
		return err
	}
	ok, err := ReadRelease(l.mutex.client.Do(ctx, ReleaseCmd(l.keys, l.id, publish)))
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
