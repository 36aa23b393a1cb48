package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
)

// maxPoll bounds how long a waiter relies on a wake-up that may have been lost
// with the process that got it. Below it, a waiter asks again only when the
// lease that it saw would end.
const maxPoll = 30 * time.Second

// Acquire acquires the lock called name. It waits while others hold it, until
// ctx ends, and then returns ctx's error and leaves nothing behind. A ctx that
// can't end waits for ever.
//
// It costs one round trip when the lock is free. Otherwise it waits for a
// wake-up from the server, in no promised order: of all the callers in this
// process that wait for one name only the first is known to the server, and
// releasing the lock wakes one process. A wake-up that got lost delays the
// waiter to the end of the lease that it saw, at most 30 s.
func (m *Mutex) Acquire(ctx context.Context, name string) (*Lease, error) {
	keys, err := NewKeys(m.client, name)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.lines.empty(keys.lease) {
		lease, _, err := m.attempt(ctx, name, keys, NewID(), "")
		if err == nil && lease != nil || err != nil && !errors.Is(err, errOver) {
			return lease, err
		}
	}
	turn := m.lines.join(keys.lease)
	select {
	case <-turn:
		return m.wait(ctx, name, keys, turn)
	case <-ctx.Done():
		m.lines.leave(keys.lease, turn)
		return nil, ctx.Err()
	}
}

// wait is for the first caller in this process's line: it queues on the server
// and tries again at each wake-up.
func (m *Mutex) wait(ctx context.Context, name string, keys Keys, turn chan struct{}) (*Lease, error) {
	w, err := m.client.Waiter(ctx, name, keys.lease)
	if err != nil {
		m.lines.leave(keys.lease, turn)
		return nil, err
	}
	id := NewID()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		lease, busy, err := m.attempt(ctx, name, keys, id, w.Channel)
		switch {
		case errors.Is(err, errOver):
			id = NewID()
			continue
		case err != nil:
			m.giveUp(ctx, keys, id, w, turn, err)
			return nil, err
		case lease != nil:
			w.Close()
			m.lines.leave(keys.lease, turn)
			return lease, nil
		}
		// A little later than the end of the lease: not to come too early.
		timer.Reset(min(busy.Remaining+time.Millisecond, maxPoll))
		select {
		case <-w.C:
		case <-timer.C:
		case <-ctx.Done():
			m.giveUp(ctx, keys, id, w, turn, nil)
			return nil, ctx.Err()
		}
	}
}

// giveUp leaves the queue without the lock. The caller is not kept: what there
// is to do on the server is done behind it. The next in line comes after that,
// or it would lose the place in the queue that it shares with this one.
func (m *Mutex) giveUp(ctx context.Context, keys Keys, id string, w *redoubt.Waiter, turn chan struct{}, err error) {
	w.Close()
	unknown := errors.Is(err, redoubt.ErrUnknownOutcome)
	if !unknown && m.lines.length(keys.lease) > 1 {
		m.lines.leave(keys.lease, turn) // the next one tries at once
		return
	}
	if !unknown {
		id = ""
	}
	go func() {
		m.cleanUp(ctx, keys, id, w.Channel)
		m.lines.leave(keys.lease, turn)
	}()
}

// lines are the callers in this process that wait, by key, in order. The first
// of a line has the turn.
type lines struct {
	mu    sync.Mutex
	byKey map[string][]chan struct{}
}

func (l *lines) empty(key string) bool { return l.length(key) == 0 }

func (l *lines) length(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byKey[key])
}

// join appends the caller to the line. The channel is closed when it is first.
func (l *lines) join(key string) (turn chan struct{}) {
	turn = make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = make(map[string][]chan struct{})
	}
	l.byKey[key] = append(l.byKey[key], turn)
	if len(l.byKey[key]) == 1 {
		close(turn)
	}
	return turn
}

// leave removes the caller from the line, wherever it stands in it.
func (l *lines) leave(key string, turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[key]
	i := slices.Index(line, turn)
	line = slices.Delete(line, i, i+1)
	if len(line) == 0 {
		delete(l.byKey, key)
		return
	}
	l.byKey[key] = line
	if i == 0 {
		close(line[0])
	}
}
