package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// heartbeat is how long the one to whom a lock was handed has to say that it
// lives, as the scripts have it: what a dead one at the head of the queue costs.
const heartbeat = 3 * time.Second

// fair is the kind of a Mutex with Options.Fair: its waiters get the lock in the
// order in which they queued, whatever their process.
//
// They are in a queue of their own in the lock's hash, each acquisition for itself:
// a list linked both ways, so that one that leaves the middle of it leaves no gap.
// Whoever releases the lock hands it to the first whose process listens: that
// acquisition is the holder from there on, so nobody can come in between. It is told,
// and has 3 s to answer, which makes the lease one of its own; the one behind it is
// told too, and looks when those have passed. A process that let them pass is passed
// over until it is heard of again.
//
// Rejected: a second key for a sorted set (every release would have to name it);
// places by number, as for those who don't ask in order (who leaves would leave a
// gap, and the last one in its place would jump the queue); beats of everybody who
// waits (a thousand waiters, a thousand commands a second).
type fair struct{ exclusive }

func (fair) acquire(keys []string, r Request, waiter string) redoubt.Cmd {
	if waiter == "" {
		return exclusive{}.acquire(keys, r, "")
	}
	return wire.FairCmd(keys, r.wire(waiter))
}

// release takes an acquisition that may be queued out of the queue.
func (fair) release(keys []string, id, waiter string, void bool) redoubt.Cmd {
	return wire.FairReleaseCmd(keys, id, waiter, void)
}

// A place is one acquisition's in the queue of its lock.
type place struct {
	granted, next *redoubt.Waiter // the lock is here; this is the next in the queue
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
	if p.granted.Verb == "PUBLISH" { // one channel for all names, which stays open
		f.lines.listening.Store(true)
	}
	return p, nil
}

func (p place) close() {
	p.granted.Close()
	p.next.Close()
}

// acquireFair is acquire for a fair lock. A client's own callers queue one after
// the other, so that they are in the order in which they came too.
func (f *family) acquireFair(ctx context.Context, t target, r Request) (sent time.Time, a wire.Attempt, err error) {
	if !f.lines.listening.Load() { // it would cost a round trip, maybe for nothing
		sent, a, err = f.attempt(ctx, t, r, "")
		if err != nil || a.Status != wire.Held {
			return sent, a, err
		}
	}
	arrivals := "queueing for " + t.key()
	turn := f.lines.join(arrivals)
	select {
	case <-turn:
	case <-ctx.Done():
		f.lines.leave(arrivals, turn)
		return sent, a, ctx.Err()
	}
	own := new(line) // counts the commands under way
	p, err := f.place(ctx, t, r.ID)
	if err == nil {
		defer p.close()
		sent, a, err = f.queue(ctx, t, r, wire.Entry(p.granted), own)
	}
	f.lines.leave(arrivals, turn)
	if p.granted == nil {
		return sent, a, err
	}
	timer := time.NewTimer(maxPoll)
	defer timer.Stop()
	for err == nil && a.Status == wire.Held {
		timer.Reset(min(a.TTL+time.Millisecond, maxPoll))
		if err = p.sleep(ctx, timer); err == nil {
			sent, a, err = f.queue(ctx, t, r, wire.Entry(p.granted), own)
		}
	}
	switch {
	case err == nil: // the answer is final, even if ctx has just ended: nothing is left to take back
	case ctx.Err() == nil && errors.Is(err, redoubt.ErrUnknownOutcome):
		// It is the caller who knows whether to ask again: what it has acquired
		// stays. A place in the queue would be handed the lock for nobody.
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

// sleep returns when it is time to ask again.
func (p place) sleep(ctx context.Context, timer *time.Timer) error {
	for {
		select {
		case <-p.granted.C:
			return nil
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-p.next.C:
			// Somebody else has the lock, who may be dead.
			timer.Reset(heartbeat + time.Millisecond)
		}
	}
}

// leaveQueue ends an acquisition that is queued, or has been given the lock
// meanwhile, by cmd in the background: once the commands that may queue it have run.
func (f *family) leaveQueue(ctx context.Context, cmd redoubt.Cmd, line *line) {
	f.client.Go(func() {
		ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), 2*cleanUpTimeout)
		defer cancel()
		line.underWay.Wait()
		_ = f.client.Do(ctx, cmd)
	})
}
