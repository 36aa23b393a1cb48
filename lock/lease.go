package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// A Lease is a lock held for a limited time. It ends when it is released, or when its
// deadline passes before the server has confirmed an extension.
//
// The deadline counts on this process's monotonic clock, from before the last
// confirmed call was sent, less 1% for clocks that run at different speeds. So the
// client treats the lease as expired before the server does, however long the network
// took. A stopped process (SIGSTOP) notices the deadline only afterwards. A process on a
// suspended machine may not notice it at all, because its clock stood still too. A
// resource that two holders must not change at once needs the fencing [Lease.Token].
//
// All methods may be called by many goroutines at once.
type Lease struct {
	family *family
	done   chan struct{}

	mu       sync.Mutex
	parts    []*heldLease
	need     int       // of a [Quorum]: how many parts keep the lease; 0: all
	forming  bool      // fewer than that are confirmed yet
	given    bool      // the caller has the lease, so its loss is reported
	deadline time.Time // the earliest deadline of the parts, or of a majority of them
	err      error     // why the lease ended; nil while it is held
	onEnd    map[*context.CancelCauseFunc]struct{}
	entered  int  // how many callers are in it by Enter
	left     bool // Release was called

	// Owned by the renewer, guarded by its mutex: checks the deadline.
	watch task

	// The part of a lease on one name, to save an allocation.
	one  heldLease
	ones [1]*heldLease
}

// A heldLease is a Lease's part on a server: one name on one master. The Lease of a [Multi]
// has a part for each name, the Lease of a [Quorum] a part for each master.
type heldLease struct {
	target

	family   *family // of the lease, or of the master
	lease    *Lease
	id       string
	fence    int64
	deadline time.Time // guarded by lease.mu
	released bool      // the server has confirmed the release; guarded by lease.mu

	// Full while a release of the part is under way; of a quorum only.
	releasing chan struct{}

	// Owned by the renewer, guarded by its mutex.
	renewal renewal
}

// drift is the part of a lease that the client gives up, for clocks that run at different
// speeds.
func drift(ttl time.Duration) time.Duration { return ttl / 100 }

// newLease returns the lease on t that an attempt sent at sent acquired. If its reply came
// after the deadline, as after a resend, the lease is given back, and the result is an
// error.
func (f *family) newLease(ctx context.Context, t target, id string, sent time.Time, a wire.Attempt) (*Lease, error) {
	l := &Lease{family: f, done: make(chan struct{})}
	l.add(t, id, sent, a, !f.opts.NoRenew)
	if l.give() != nil {
		f.cleanUp(ctx, t.release(id))
		return nil, errTooLate
	}
	return l, nil
}

// give returns the error of a lease that has ended before the caller got it.
func (l *Lease) give() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.check()
	l.given = err == nil
	return err
}

// do runs fn while the lease lasts, and releases it.
func (l *Lease) do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	defer func() {
		if rerr := l.Release(ctx); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	return fn(l.Context(ctx))
}

// add adds t to the lease.
func (l *Lease) add(t target, id string, sent time.Time, a wire.Attempt, renew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var h *heldLease
	if l.parts == nil {
		h, l.parts = &l.one, l.ones[:0]
	} else {
		h = new(heldLease)
	}
	h.target, h.family, h.lease, h.id, h.fence, h.deadline = t, l.family, l, id, a.Token, sent.Add(a.TTL-drift(a.TTL))
	l.parts = append(l.parts, h)
	if l.err != nil {
		return // its release covers this part too
	}
	l.schedule()
	if renew {
		l.family.renewer.add(h, renewAt(sent, l.family.opts.TTL))
	}
}

// schedule sets the deadline by the deadlines of the parts. l.mu is held.
func (l *Lease) schedule() {
	if l.forming {
		return
	}
	first := l.first().deadline
	if first.Equal(l.deadline) {
		return
	}
	l.deadline = first
	l.family.renewer.watch(l, first)
}

// first returns the part that ends first or, of a quorum, the first part whose end leaves
// no majority. l.mu is held.
func (l *Lease) first() *heldLease {
	if l.need > 0 {
		byEnd := slices.SortedFunc(slices.Values(l.parts), func(a, b *heldLease) int { return b.deadline.Compare(a.deadline) })
		return byEnd[l.need-1]
	}
	first := l.parts[0]
	for _, h := range l.parts[1:] {
		if h.deadline.Before(first.deadline) {
			first = h
		}
	}
	return first
}

// all returns the parts of the lease.
func (l *Lease) all() []*heldLease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.parts)
}

// Name returns the lock's name. It is empty for a lease on several names: see
// [Lease.Tokens].
func (l *Lease) Name() string {
	if parts := l.all(); len(parts) == 1 || l.need > 0 {
		return parts[0].name
	}
	return ""
}

// ID returns the 32 hexadecimal digits that name this acquisition. Anybody with the ID
// can extend and release the lease. It is empty for a lease on several names.
func (l *Lease) ID() string {
	if parts := l.all(); len(parts) == 1 || l.need > 0 {
		return parts[0].id
	}
	return ""
}

// Token returns the fencing token: a number larger than the token of any earlier lease
// on the same name, about the server's time in microseconds at the acquisition. Store it
// with the data that the lock protects, and refuse writes with a smaller token: package
// fence does.
//
// The readers of an [RWMutex] share one token, the token of the last writer. A lease on
// several names has 0, which every resource refuses: see [Lease.Tokens].
func (l *Lease) Token() int64 {
	if parts := l.all(); len(parts) == 1 || l.need > 0 {
		return parts[0].fence
	}
	return 0
}

// Tokens returns the fencing token of each name that the lease is on.
func (l *Lease) Tokens() map[string]int64 {
	tokens := make(map[string]int64)
	for _, h := range l.all() {
		tokens[h.name] = h.fence
	}
	return tokens
}

// Deadline returns when the lease ends unless it is extended.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Done returns a channel that is closed when the lease ends.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns nil while the lease is held, [ErrReleased] after Release,
// [ErrHandedOver] after HandOver, and otherwise an error that matches [ErrNotHeld] and says why it was lost.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check()
}

// check is Err with l.mu held. The deadline decides: the renewer may check it late.
func (l *Lease) check() error {
	if l.err == nil && !time.Now().Before(l.deadline) {
		l.end(fmt.Errorf("%w%s", ErrRanOut, l.first().renewal.why()))
	}
	return l.err
}

// Context returns a context derived from parent that ends when the lease ends. Its cause
// (context.Cause) is then the error of [Lease.Err], which matches [ErrReleased],
// [ErrHandedOver], [ErrRanOut] or [ErrTaken]. The context carries the lease: see
// [Mutex.Do].
func (l *Lease) Context(parent context.Context) context.Context {
	ctx, _ := l.context(parent)
	return ctx
}

// context is Context, with a function that ends it before the lease ends.
func (l *Lease) context(parent context.Context) (ctx context.Context, cancel context.CancelCauseFunc) {
	ctx, cancel = context.WithCancelCause(carry(parent, l))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(); err != nil {
		cancel(err)
		return ctx, cancel
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
	return ctx, cancel
}

// Extend makes the lease last at least ttl from now on the server; it never makes it
// shorter. The error matches [ErrNotHeld] when the lease has ended. After any other error
// the lease lasts at least until its old deadline. One round trip.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := checkTTL(ttl); err != nil {
		return err
	}
	if err := l.Err(); err != nil {
		return notHeld(err)
	}
	if l.need > 0 {
		return l.extendQuorum(ctx, ttl)
	}
	parts := l.all()
	cmds := make([]redoubt.Cmd, len(parts))
	for i, h := range parts {
		cmds[i] = h.kind.extend(h.keys, h.id, ttl)
	}
	sent := time.Now()
	var errs error
	for i, reply := range l.family.send(ctx, cmds) {
		held, granted, err := wire.ReadExtend(reply)
		if err == nil {
			err = parts[i].extended(sent, held, granted)
		}
		if err != nil && errs == nil || errors.Is(err, ErrNotHeld) {
			errs = err
		}
	}
	return errs
}

// extended takes in the server's answer to an extension sent at sent.
func (h *heldLease) extended(sent time.Time, held bool, ttl time.Duration) error {
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(); err != nil {
		if held && l.need > 0 { // the call may have taken the master again
			h.freeAgain(nil)
		}
		return notHeld(err)
	}
	if !held {
		h.deadline = time.Time{}
		if l.need == 0 || !l.forming && !time.Now().Before(l.first().deadline) {
			l.end(ErrTaken)
			return l.err
		}
		l.schedule()
		return nil
	}
	// Answers may overtake each other. The server never makes a lease shorter, so
	// the latest deadline counts. An answer after the deadline comes too late: the
	// holder may know already that the lease has ended.
	if deadline := sent.Add(ttl - drift(ttl)); deadline.After(h.deadline) {
		h.deadline = deadline
		l.schedule()
	}
	return l.check()
}

// expire ends the lease if its deadline has passed. The renewer calls it; the deadline may
// have moved meanwhile.
func (l *Lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check() == nil {
		l.family.renewer.watch(l, l.deadline)
	}
}

// end ends the lease for the given reason. l.mu is held.
func (l *Lease) end(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	l.family.renewer.unwatch(l)
	close(l.done)
	for cancel := range l.onEnd {
		(*cancel)(err)
	}
	l.onEnd = nil
	l.stopRenewal()
	if l.given && errors.Is(err, ErrNotHeld) {
		h := l.first()
		h.family.client.Report(context.Background(), redoubt.Event{Kind: redoubt.EventLost, Primitive: "lock", Name: h.name, Err: err})
	}
}

// Release gives the lock back and wakes one waiter. The lease ends when Release is
// called, whatever it returns, unless it is entered by [Lease.Enter]: then it ends when
// the last caller leaves. The error matches [ErrNotHeld] when the lease was lost before:
// another client may have held the lock meanwhile. After any other error the lock is free
// when its TTL ends at the latest, and Release may be called again. After a success it
// does nothing.
//
// If ctx has ended already, Release still tries for 3 s. If ctx ends while Release runs,
// it goes on in the background for as long. One round trip.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	l.left = true
	l.mu.Unlock()
	return l.part(ctx)
}

// release is Release, once every caller has left the lease.
func (l *Lease) release(ctx context.Context) error {
	l.mu.Lock()
	lost := l.check()
	l.end(ErrReleased)
	if l.need > 0 {
		l.mu.Unlock()
		return l.releaseQuorum(ctx, lost)
	}
	var parts []*heldLease
	var cmds []redoubt.Cmd
	for _, h := range l.parts {
		if !h.released {
			parts = append(parts, h)
			cmds = append(cmds, h.release(h.id))
		}
	}
	l.mu.Unlock()
	if len(cmds) == 0 { // again
		if errors.Is(lost, ErrNotHeld) {
			return lost
		}
		return nil
	}
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), cleanUpTimeout)
		defer cancel()
	}
	var err error
	gone := false
	for i, reply := range l.family.send(ctx, cmds) {
		switch ok, rerr := wire.ReadRelease(reply); {
		case rerr != nil:
			err = errors.Join(err, rerr)
		case !ok:
			gone = true
		default:
			l.mu.Lock()
			parts[i].released = true
			l.mu.Unlock()
		}
	}
	if err != nil && ctx.Err() != nil {
		l.family.cleanUp(ctx, cmds...)
	}
	switch {
	case errors.Is(lost, ErrNotHeld):
		return lost // whatever the server says: the holder had to stop earlier
	case gone:
		return l.gone()
	}
	return err
}

// gone returns why the server no longer held a lease that was being released.
func (l *Lease) gone() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !time.Now().Before(l.deadline) {
		return ErrRanOut
	}
	return ErrTaken
}

// stopRenewal ends the renewals. l.mu is held, or the lease has not been returned yet.
func (l *Lease) stopRenewal() {
	for _, h := range l.parts {
		h.family.renewer.remove(h)
	}
}

// notHeld returns err as one that matches ErrNotHeld.
func notHeld(err error) error {
	if errors.Is(err, ErrNotHeld) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotHeld, err)
}
