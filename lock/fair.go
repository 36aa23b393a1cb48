package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// heartbeat is how long a waiter has to answer after the lock was handed to it, as in the
// scripts: how long a dead waiter at the head of the queue delays the others.
const heartbeat = 3 * time.Second

// fair is the kind of a Mutex with Options.Fair: its waiters get the lock in the order in
// which they queued, across all processes.
//
// They have a queue of their own in the lock's hash, with an entry for each acquisition: a
// doubly linked list, so that a waiter that leaves the middle leaves no gap. A release
// hands the lock to the first waiter whose process listens. That waiter is the holder from
// then on, so nobody gets in between. It gets a message, and has 3 s to answer; the answer
// gives it a lease with its own TTL. The waiter behind it gets a message too, and checks
// after the 3 s. A process that missed them is skipped until it sends a command again.
//
// Rejected: a second key with a sorted set (every release would have to name it); places
// by number, as in the queue of unfair waiters (a waiter that leaves would leave a gap,
// and the last waiter would jump the queue by filling it); heartbeats of all waiters (a
// thousand waiters, a thousand commands a second).
type fair struct{ exclusive }

func (fair) acquire(keys []string, r Request, waiter string) redoubt.Cmd {
	if waiter == "" {
		return exclusive{}.acquire(keys, r, "")
	}
	return wire.FairCmd(keys, r.wire(waiter))
}

// release takes the acquisition out of the queue if it is there.
func (fair) release(keys []string, id, waiter string, void bool) redoubt.Cmd {
	return wire.FairReleaseCmd(keys, id, waiter, void)
}

// A place is the place of one acquisition in the queue of its lock.
type place struct {
	granted, next *redoubt.Waiter // woken when the lock is granted; when it is the next in the queue
}

func (f *family) place(ctx context.Context, t target, id string) (p place, err error) {
	message := wire.Arrival(t.key(), id)
	if p.granted, err = f.client.Waiter(ctx, t.name, message); err != nil {
		return p, err
	}
	if p.next, err = f.client.Waiter(ctx, t.name, message[:len(message)-1]); err != nil {
		p.granted.Close()
		return p, err
	}
	if p.granted.Verb == "PUBLISH" { // one channel for all names, open from now on
		f.queues.listening.Store(true)
	}
	return p, nil
}

func (p place) close() {
	p.granted.Close()
	p.next.Close()
}

// acquireFair is acquire for a fair lock. The callers of one client queue one after the
// other, so that they keep their order too.
func (f *family) acquireFair(ctx context.Context, t target, r Request) (sent time.Time, a wire.Attempt, err error) {
	if !f.queues.listening.Load() { // a subscription would cost a round trip, perhaps for nothing
		sent, a, err = f.attempt(ctx, t, r, "")
		if err != nil || a.Status != wire.Held {
			return sent, a, err
		}
	}
	arrivals := "queueing for " + t.key()
	turn := f.queues.join(arrivals)
	select {
	case <-turn:
	case <-ctx.Done():
		f.queues.leave(arrivals, turn)
		return sent, a, ctx.Err()
	}
	own := new(waitQueue) // counts the commands under way
	p, err := f.place(ctx, t, r.ID)
	if err == nil {
		defer p.close()
		sent, a, err = f.queue(ctx, t, r, wire.Entry(p.granted), own)
	}
	f.queues.leave(arrivals, turn)
	if p.granted == nil {
		return sent, a, err
	}
	if err == nil && a.Status == wire.Held {
		defer f.waited(ctx, t, time.Now(), &err)
	}
	timer := time.NewTimer(maxPoll)
	defer timer.Stop()
	for err == nil && a.Status == wire.Held {
		var woken time.Time
		timer.Reset(min(a.TTL+time.Millisecond, maxPoll))
		if woken, err = p.sleep(ctx, timer); err == nil {
			sent, a, err = f.queue(ctx, t, r, wire.Entry(p.granted), own)
			f.handedOver(ctx, t, woken, a, err)
		}
	}
	switch {
	case err == nil: // the answer is final, even if ctx has just ended
	case ctx.Err() == nil && errors.Is(err, redoubt.ErrUnknownOutcome):
		// The caller decides whether to repeat the request, so an acquired lock
		// stays. A place in the queue goes: nobody would take the granted lock.
		if f.client.Do(ctx, wire.FairLeaveCmd(t.keys, r.ID)).Err != nil {
			f.leaveQueue(ctx, wire.FairLeaveCmd(t.keys, r.ID), own)
		}
	default:
		cmd := t.void(r.ID)
		if r.Keep {
			cmd = wire.FairLeaveCmd(t.keys, r.ID)
		}
		f.leaveQueue(ctx, cmd, own)
	}
	return sent, a, err
}

// sleep blocks until it is time to ask again. woken is the time
// at which it learned that the lock was granted, zero after anything else.
func (p place) sleep(ctx context.Context, timer *time.Timer) (woken time.Time, err error) {
	for {
		select {
		case <-p.granted.C:
			return time.Now(), nil
		case <-timer.C:
			return time.Time{}, nil
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-p.next.C:
			// Another waiter has the lock, and may be dead.
			timer.Reset(heartbeat + time.Millisecond)
		}
	}
}

// leaveQueue runs cmd in the background, which ends an acquisition that is queued or has the
// lock already. It first waits until the commands that may queue it have run.
func (f *family) leaveQueue(ctx context.Context, cmd redoubt.Cmd, queue *waitQueue) {
	f.client.Go(func() {
		ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), 2*cleanUpTimeout)
		defer cancel()
		queue.underWay.Wait()
		_ = f.client.Do(ctx, cmd)
	})
}
