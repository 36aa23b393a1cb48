package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// maxPoll bounds how long a waiter relies on a wake-up, which may be lost with another
// process. Otherwise a waiter asks again when the lease that it saw would end.
var maxPoll = 30 * time.Second // changed by tests

const (
	// claimFor is how long a claim keeps others out, also after the waiter's death.
	claimFor = 3 * time.Second
	// claimAgain is how often a waiter renews its claim.
	claimAgain = time.Second
)

// A Request is one acquisition with an id, a TTL and a label of its own: see
// [Mutex.AcquireRequest].
type Request struct {
	// ID names the acquisition: 1 to 256 bytes that nobody can guess, 128 random bits for
	// instance. A repeated request with the same ID gets the same answer.
	ID string
	// TTL is how long the lease lasts, from 1 ms to a year. It is not renewed.
	TTL time.Duration
	// Label tells other clients who holds the lock. At most [MaxLabel] bytes.
	Label string
	// Keep leaves a lock that the ID has acquired in place when ctx ends. Set it when
	// the same ID may be requested again elsewhere, as after a change of connection: the
	// other request may have returned the lock already. It then lasts until it is
	// released, or its TTL ends. By default it is given back.
	Keep bool
}

func (r Request) wire(waiter string) wire.Request {
	return wire.Request{ID: r.ID, TTL: r.TTL, Label: r.Label, Waiter: waiter}
}

func (r Request) check() error {
	errs := []error{checkTTL(r.TTL)}
	if len(r.ID) == 0 || len(r.ID) > MaxLabel {
		errs = append(errs, fmt.Errorf("lock: id has %d bytes; want 1 to %d", len(r.ID), MaxLabel))
	}
	if len(r.Label) > MaxLabel {
		errs = append(errs, fmt.Errorf("lock: label has %d bytes; want at most %d", len(r.Label), MaxLabel))
	}
	return errors.Join(errs...)
}

// acquire waits until t is acquired. sent is when the attempt was sent that a answers.
// After an error that matches redoubt.ErrUnknownOutcome the caller decides what happens to
// the id.
func (f *family) acquire(ctx context.Context, t target, r Request) (sent time.Time, a wire.Attempt, err error) {
	if err := ctx.Err(); err != nil {
		return sent, a, err
	}
	if _, ok := t.kind.(fair); ok {
		return f.acquireFair(ctx, t, r)
	}
	if f.queues.empty(t.key()) {
		sent, a, err = f.attempt(ctx, t, r, "")
		if err != nil || a.Status != wire.Held {
			return sent, a, err
		}
	}
	defer f.waited(ctx, t, time.Now(), &err)
	turn := f.queues.join(t.key())
	select {
	case <-turn:
	case <-ctx.Done():
		f.giveUp(ctx, t, r.ID, turn)
		return sent, a, ctx.Err()
	}
	sent, a, err = f.wait(ctx, t, r)
	if err != nil || a.Status == wire.Over {
		f.giveUp(ctx, t, r.ID, turn)
	} else {
		f.queues.leave(t.key(), turn)
	}
	return sent, a, err
}

// waited reports a wait that began at since.
func (f *family) waited(ctx context.Context, t target, since time.Time, err *error) {
	f.client.Report(ctx, redoubt.Event{Kind: redoubt.EventWaited, Primitive: "lock", Name: t.name, Took: time.Since(since), Err: *err})
}

// wait queues the first caller of this process on the server, and tries again at
// each wake-up.
func (f *family) wait(ctx context.Context, t target, r Request) (sent time.Time, a wire.Attempt, err error) {
	w, err := f.client.Waiter(ctx, t.name, t.key())
	if err != nil {
		return sent, a, err
	}
	defer w.Close()
	queue := f.queues.queued(t.key(), wire.Entry(w))
	timer := time.NewTimer(maxPoll)
	defer timer.Stop()
	var woken time.Time
	for {
		sent, a, err = f.queue(ctx, t, r, wire.Entry(w), queue)
		if err != nil || a.Status != wire.Held {
			f.handedOver(ctx, t, woken, a, err)
			return sent, a, err
		}
		// A little after the end of the lease, so as not to come too early.
		timer.Reset(min(a.TTL+time.Millisecond, maxPoll))
		if woken, err = f.sleep(ctx, t, r.ID, queue, w.C, timer.C); err != nil {
			return sent, a, err
		}
	}
}

// handedOver reports an acquisition after a wake-up.
func (f *family) handedOver(ctx context.Context, t target, woken time.Time, a wire.Attempt, err error) { //nolint:revive // the results of an attempt
	if woken.IsZero() || err != nil || a.Status != wire.Acquired {
		return
	}
	took := time.Since(woken)
	wire.TellHandOver(ctx, took)
	f.client.Report(ctx, redoubt.Event{Kind: redoubt.EventHandOver, Primitive: "lock", Name: t.name, Took: took})
}

// sleep blocks until it is time for another try, and claims meanwhile. woken is the time of a wake-up,
// zero after anything else.
func (f *family) sleep(ctx context.Context, t target, id string, queue *waitQueue, wakeUp <-chan struct{}, poll <-chan time.Time) (woken time.Time, err error) {
	var beat <-chan time.Time
	claim := func() {}
	if c, ok := t.kind.(claimer); ok {
		// If this fails, the lock is acquired nevertheless, though later.
		claim = func() {
			queue.run(ctx, f.client, func(ctx context.Context) { _ = f.client.Do(ctx, c.claim(t.keys, id)) }, func(context.Context) {})
		}
		ticker := time.NewTicker(claimAgain)
		defer ticker.Stop()
		beat = ticker.C
	}
	for {
		claim()
		select {
		case <-wakeUp:
			return time.Now(), nil
		case <-poll:
			return time.Time{}, nil
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-beat:
		}
	}
}

// attempt sends one acquire.
func (f *family) attempt(ctx context.Context, t target, r Request, waiter string) (sent time.Time, a wire.Attempt, err error) {
	sent = time.Now()
	a, err = wire.ReadAttempt(f.client.Do(ctx, t.kind.acquire(t.keys, r, waiter)))
	return sent, a, err
}

// queue sends one acquire that queues waiter.
func (f *family) queue(ctx context.Context, t target, r Request, waiter string, queue *waitQueue) (time.Time, wire.Attempt, error) {
	var got struct {
		sent time.Time
		a    wire.Attempt
		err  error
	}
	answered := queue.run(ctx, f.client, func(ctx context.Context) {
		got.sent, got.a, got.err = f.attempt(ctx, t, r, waiter)
	}, func(ctx context.Context) {
		if got.err == nil && got.a.Status == wire.Acquired && !r.Keep {
			_ = f.client.Do(ctx, t.void(r.ID))
		}
	})
	if !answered {
		return time.Time{}, wire.Attempt{}, redoubt.UnknownOutcome(ctx.Err())
	}
	return got.sent, got.a, got.err
}

// giveUp removes the caller from the wait queue without the lock.
func (f *family) giveUp(ctx context.Context, t target, id string, turn chan struct{}) {
	_, claims := t.kind.(claimer)
	f.queues.giveUp(ctx, f.client, t.key(), turn, claims, func(waiter string) redoubt.Cmd { return t.leave(id, waiter) })
}
