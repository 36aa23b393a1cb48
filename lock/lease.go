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
	family *family
	done   chan struct{}

	mu       sync.Mutex
	holds    []*hold
	need     int       // of a [Quorum]: how many of the holds keep the lease; 0: all
	forming  bool      // not yet that many of them are confirmed
	deadline time.Time // the earliest of the holds', or of a majority of them
	err      error     // why the lease is over; nil while it is held
	onEnd    map[*context.CancelCauseFunc]struct{}
	entered  int  // how many are in it by Enter
	left     bool // Release was called

	// Owned by the renewer, guarded by its mutex: looks at the deadline.
	watch task

	// Of the lease on one name, not to be allocated apart.
	one  hold
	ones [1]*hold
}

// A hold is a lease's part on the server: one name on one master. The lease of a
// [Multi] has one for each name, that of a [Quorum] one for each master.
type hold struct {
	target

	family   *family // the lease's, or that of the master
	lease    *Lease
	id       string
	fence    int64
	deadline time.Time // guarded by lease.mu
	released bool      // the server has confirmed the release; guarded by lease.mu

	// Owned by the renewer, guarded by its mutex.
	renewal renewal
}

// drift is the part of a lease that is given away for clocks that run at
// different speeds.
func drift(ttl time.Duration) time.Duration { return ttl / 100 }

// newLease returns the lease on t that an attempt sent at sent acquired. One whose
// reply came after its deadline, as that of an attempt that had to be sent again
// may, is given back: there is no lease then, but an error.
func (f *family) newLease(ctx context.Context, t target, id string, sent time.Time, a wire.Attempt) (*Lease, error) {
	l := &Lease{family: f, done: make(chan struct{})}
	l.add(t, id, sent, a, !f.opts.NoRenew)
	if l.Err() != nil {
		f.cleanUp(ctx, t.release(id))
		return nil, errTooLate
	}
	return l, nil
}

// add makes the lease one on t too.
func (l *Lease) add(t target, id string, sent time.Time, a wire.Attempt, renew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var h *hold
	if l.holds == nil {
		h, l.holds = &l.one, l.ones[:0]
	} else {
		h = new(hold)
	}
	h.target, h.family, h.lease, h.id, h.fence, h.deadline = t, l.family, l, id, a.Token, sent.Add(a.TTL-drift(a.TTL))
	l.holds = append(l.holds, h)
	if l.err != nil {
		return // its release takes this along
	}
	l.schedule()
	if renew {
		l.family.renewer.add(h, renewAt(sent, l.family.opts.TTL))
	}
}

// schedule sets the deadline by those of the holds. l.mu is held.
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

// first returns the hold that ends first or, of a quorum, the first that leaves no
// majority when it ends. l.mu is held.
func (l *Lease) first() *hold {
	if l.need > 0 {
		byEnd := slices.SortedFunc(slices.Values(l.holds), func(a, b *hold) int { return b.deadline.Compare(a.deadline) })
		return byEnd[l.need-1]
	}
	first := l.holds[0]
	for _, h := range l.holds[1:] {
		if h.deadline.Before(first.deadline) {
			first = h
		}
	}
	return first
}

// all returns what the lease holds.
func (l *Lease) all() []*hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.holds)
}

// Name returns the lock's name. It is empty for a lease on several names: see
// [Lease.Tokens].
func (l *Lease) Name() string {
	if holds := l.all(); len(holds) == 1 || l.need > 0 {
		return holds[0].name
	}
	return ""
}

// ID returns the 32 hexadecimal digits that name this acquisition. Who knows
// them can extend and release the lease. It is empty for a lease on several
// names.
func (l *Lease) ID() string {
	if holds := l.all(); len(holds) == 1 || l.need > 0 {
		return holds[0].id
	}
	return ""
}

// Token returns the fencing token: a number that is larger than that of any
// earlier lease on the same name, about the server's time in microseconds at
// the acquisition. Store it with what the lock protects and refuse writes that
// carry a smaller one.
//
// Leases that are held together, by the readers of an [RWMutex], carry one
// token: that of the last writer. It is 0, which every resource refuses, for a
// lease on several names: see [Lease.Tokens].
func (l *Lease) Token() int64 {
	if holds := l.all(); len(holds) == 1 || l.need > 0 {
		return holds[0].fence
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

// Deadline returns when the lease is over unless it is extended.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Done returns a channel that is closed when the lease is over.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns nil while the lease is held, [ErrReleased] after Release,
// [ErrHandedOver] after HandOver, and otherwise an error that matches [ErrNotHeld] and says why it was lost.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check()
}

// check is Err with l.mu held. The deadline decides, not when the renewer looks
// at it, which may be late.
func (l *Lease) check() error {
	if l.err == nil && !time.Now().Before(l.deadline) {
		l.end(fmt.Errorf("%w%s", ErrRanOut, l.first().renewal.why()))
	}
	return l.err
}

// Context returns a context derived from parent that ends when the lease is
// over. Its cause (context.Cause) is then what [Lease.Err] returns: it matches
// [ErrReleased], [ErrHandedOver], [ErrRanOut] or [ErrTaken]. The context carries the lease: see
// [Mutex.Do].
func (l *Lease) Context(parent context.Context) context.Context {
	ctx, _ := l.context(parent)
	return ctx
}

// context is Context, and what ends it before the lease is over.
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

// Extend makes the lease last at least ttl from now, at the server: it never
// makes it shorter. It returns an error that matches [ErrNotHeld] when the
// lease is over: then it stays over. After any other error the lease lasts at
// least until its old deadline. One round trip.
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
	holds := l.all()
	cmds := make([]redoubt.Cmd, len(holds))
	for i, h := range holds {
		cmds[i] = h.kind.extend(h.keys, h.id, ttl)
	}
	sent := time.Now()
	var errs error
	for i, reply := range l.family.send(ctx, cmds) {
		held, granted, err := wire.ReadExtend(reply)
		if err == nil {
			err = holds[i].extended(sent, held, granted)
		}
		if err != nil && errs == nil || errors.Is(err, ErrNotHeld) {
			errs = err
		}
	}
	return errs
}

// extended takes in the server's answer to an extension sent at sent.
func (h *hold) extended(sent time.Time, held bool, ttl time.Duration) error {
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(); err != nil {
		if held && l.need > 0 { // it may have taken a master anew
			h.family.cleanUp(context.Background(), h.void(h.id))
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
	// Answers may overtake each other. The server never makes a lease shorter,
	// so the latest deadline that any of them gave holds. One that comes after
	// the deadline comes too late: the holder may have been told so.
	if deadline := sent.Add(ttl - drift(ttl)); deadline.After(h.deadline) {
		h.deadline = deadline
		l.schedule()
	}
	return l.check()
}

// expire is called by the renewer. The deadline may have moved since it was told.
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
}

// Release gives the lock back and wakes one waiter. The lease is over when
// Release is called, whatever it returns, unless somebody is in it by
// [Lease.Enter]: then it lasts until the last of them leaves. Release returns an
// error that matches [ErrNotHeld] when the lease was lost before: another may have
// held the lock meanwhile. After any other error the lock is free at the latest when its TTL
// ends, and Release may be called again. After a success it does nothing.
//
// A ctx that has ended does not keep Release from trying: it is then given
// 3 s. If ctx ends while Release runs, it goes on in the background for as long.
// One round trip.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	l.left = true
	l.mu.Unlock()
	return l.part(ctx)
}

// release is Release once nobody is left in the lease.
func (l *Lease) release(ctx context.Context) error {
	l.mu.Lock()
	lost := l.check()
	l.end(ErrReleased)
	if l.need > 0 {
		l.mu.Unlock()
		return l.releaseQuorum(ctx, lost)
	}
	var holds []*hold
	var cmds []redoubt.Cmd
	for _, h := range l.holds {
		if !h.released {
			holds = append(holds, h)
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
			holds[i].released = true
			l.mu.Unlock()
		}
	}
	if err != nil && ctx.Err() != nil {
		l.family.cleanUp(ctx, cmds...)
	}
	switch {
	case errors.Is(lost, ErrNotHeld):
		return lost // whatever the server says: the holder had to stop before
	case gone:
		return ErrTaken
	}
	return err
}

// stopRenewal forgets the renewals. l.mu is held, or nobody knows the lease yet.
func (l *Lease) stopRenewal() {
	for _, h := range l.holds {
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
