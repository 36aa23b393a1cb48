package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redoubt-go/redoubt"
)

// A Request is one acquisition with an id, a TTL and a label of its own, as
// the command LOCK.ACQUIRE makes it.
type Request struct {
	// ID names the acquisition: see [NewID]. A request that is repeated with
	// the same ID gets the same answer.
	ID string
	// TTL is how long the lease lasts. Nobody renews it.
	TTL time.Duration
	// Label is shown to whoever finds the lock busy.
	Label string
}

// AcquireRequest acquires the lock called name as [Mutex.Acquire] does, waiting
// until ctx ends, but gives no [Lease]: whoever knows the ID extends and
// releases the lock by [ExtendCmd] and [ReleaseCmd]. The Attempt's Status is
// Acquired, or Over when the ID held the lock before.
//
// When ctx ends nothing is left behind. After another error that matches
// redoubt.ErrUnknownOutcome the lock may have been acquired: repeat the request
// with the same ID, or release it.
func (m *Mutex) AcquireRequest(ctx context.Context, name string, r Request) (Attempt, error) {
	keys, err := NewKeys(m.client, name)
	if err != nil {
		return Attempt{}, err
	}
	if err := CheckTTL(r.TTL); err != nil {
		return Attempt{}, err
	}
	if m.lines.empty(keys.lease) {
		a, err := ReadAttempt(m.client.Do(ctx, AcquireCmd(keys, r.ID, r.TTL, r.Label, "")))
		switch {
		case err != nil:
			if ctx.Err() != nil && errors.Is(err, redoubt.ErrUnknownOutcome) {
				go m.cleanUp(ctx, keys, r.ID, "")
			}
			return a, err
		case a.Status != Held:
			return a, nil
		}
	}
	turn := m.lines.join(keys.lease)
	select {
	case <-turn:
	case <-ctx.Done():
		m.giveUp(ctx, keys, "", turn)
		return Attempt{}, ctx.Err()
	}
	w, err := m.client.Waiter(ctx, name, keys.lease)
	if err != nil {
		m.giveUp(ctx, keys, "", turn)
		return Attempt{}, err
	}
	defer w.Close()
	m.lines.queued(keys.lease, w.Channel)
	timer := time.NewTimer(maxPoll)
	defer timer.Stop()
	for {
		a, err := ReadAttempt(m.client.Do(ctx, AcquireCmd(keys, r.ID, r.TTL, r.Label, w.Channel)))
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, redoubt.ErrUnknownOutcome):
			m.giveUp(ctx, keys, r.ID, turn)
			return a, err
		case err != nil:
			m.giveUp(ctx, keys, "", turn) // the caller knows the ID and decides
			return a, err
		case a.Status != Held:
			m.lines.leave(keys.lease, turn)
			return a, nil
		}
		timer.Reset(min(a.TTL+time.Millisecond, maxPoll))
		select {
		case <-w.C:
		case <-timer.C:
		case <-ctx.Done():
			m.giveUp(ctx, keys, "", turn)
			return Attempt{}, ctx.Err()
		}
	}
}
