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
	for {
		r := Request{ID: NewID(), TTL: m.opts.TTL, Label: m.opts.Label}
		keys, err := NewKeys(m.client, name)
		if err != nil {
			return nil, err
		}
		sent, a, err := m.acquire(ctx, name, keys, r)
		switch {
		case err != nil:
			if ctx.Err() == nil && errors.Is(err, redoubt.ErrUnknownOutcome) {
				m.client.Go(func() { m.cleanUp(ctx, keys, r.ID, "") })
			}
			return nil, err
		case a.Status == Acquired:
			return newLease(m, name, keys, r.ID, a.Fence, sent, a.TTL), nil
		}
		// It was acquired, and over before its reply came: try anew.
	}
}

// A Request is one acquisition with an id, a TTL and a label of its own.
type Request struct {
	// ID names the acquisition: see [NewID]. A request that is repeated with
	// the same ID gets the same answer.
	ID string
	// TTL is how long the lease lasts. Nobody renews it.
	TTL time.Duration
	// Label is shown to whoever finds the lock busy.
	Label string
}

// AcquireRequest acquires the lock called name as [Mutex.Acquire] does, but
// gives no [Lease]: whoever knows the ID extends and releases the lock, by
// [ExtendCmd] and [ReleaseCmd]. The Attempt's Status is Acquired, or Over when
// the ID held the lock before. This is how LOCK.ACQUIRE waits.
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
	_, a, err := m.acquire(ctx, name, keys, r)
	return a, err
}

// acquire waits until the lock is not held by another. sent is when the
// attempt was sent that a answers.
func (m *Mutex) acquire(ctx context.Context, name string, keys Keys, r Request) (sent time.Time, a Attempt, err error) {
	if err := ctx.Err(); err != nil {
		return sent, a, err
	}
	if m.lines.empty(keys.lease) {
		sent, a, err = m.attempt(ctx, keys, r, "")
		if err != nil || a.Status != Held {
			if ctx.Err() != nil && errors.Is(err, redoubt.ErrUnknownOutcome) {
				m.client.Go(func() { m.cleanUp(ctx, keys, r.ID, "") })
			}
			return sent, a, err
		}
	}
	turn := m.lines.join(keys.lease)
	select {
	case <-turn:
	case <-ctx.Done():
		m.giveUp(ctx, keys, "", turn)
		return sent, a, ctx.Err()
	}
	sent, a, err = m.wait(ctx, name, keys, r)
	switch {
	case err == nil:
		m.lines.leave(keys.lease, turn)
	case ctx.Err() != nil && errors.Is(err, redoubt.ErrUnknownOutcome):
		m.giveUp(ctx, keys, r.ID, turn)
	default:
		m.giveUp(ctx, keys, "", turn)
	}
	return sent, a, err
}

// wait is for the first caller in this process's line: it queues on the server
// and tries again at each wake-up.
func (m *Mutex) wait(ctx context.Context, name string, keys Keys, r Request) (sent time.Time, a Attempt, err error) {
	w, err := m.client.Waiter(ctx, name, keys.lease)
	if err != nil {
		return sent, a, err
	}
	defer w.Close()
	m.lines.queued(keys.lease, w.Channel)
	timer := time.NewTimer(maxPoll)
	defer timer.Stop()
	for {
		sent, a, err = m.attempt(ctx, keys, r, w.Channel)
		if err != nil || a.Status != Held {
			return sent, a, err
		}
		// A little later than the end of the lease: not to come too early.
		timer.Reset(min(a.TTL+time.Millisecond, maxPoll))
		select {
		case <-w.C:
		case <-timer.C:
		case <-ctx.Done():
			return sent, a, ctx.Err()
		}
	}
}

// attempt sends one acquire.
func (m *Mutex) attempt(ctx context.Context, keys Keys, r Request, channel string) (sent time.Time, a Attempt, err error) {
	sent = time.Now()
	a, err = ReadAttempt(m.client.Do(ctx, AcquireCmd(keys, r.ID, r.TTL, r.Label, channel)))
	return sent, a, err
}

// giveUp leaves the line without the lock. An id that is not empty is that of
// an acquire whose outcome is unknown.
//
// If somebody stands behind, nothing else is to do: the next one tries at once
// and takes over the place in the server's queue. The last one gives up that
// place, which wakes another process if this one has just been woken for
// nothing. The caller is not kept until that is done, but who joins the line
// meanwhile is, or would lose the place that it has just taken.
func (m *Mutex) giveUp(ctx context.Context, keys Keys, id string, turn chan struct{}) {
	channel, last := m.lines.channel(keys.lease, turn)
	if !last || channel == "" {
		if id != "" {
			m.client.Go(func() { m.cleanUp(ctx, keys, id, "") })
		}
		m.lines.leave(keys.lease, turn)
		return
	}
	m.client.Go(func() {
		m.cleanUp(ctx, keys, id, channel)
		m.lines.leave(keys.lease, turn)
	})
}

// lines are the callers in this process that wait, by key.
type lines struct {
	mu    sync.Mutex
	byKey map[string]*line
}

// A line is the callers that wait for one key, in order. The first has the
// turn: the others are unknown to the server.
type line struct {
	turns   []chan struct{} // closed when the caller is first
	channel string          // where the server may wake this line, once queued
}

func (l *lines) empty(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byKey[key] == nil
}

// join appends the caller to the line. The channel is closed when it is first.
func (l *lines) join(key string) (turn chan struct{}) {
	turn = make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = make(map[string]*line)
	}
	if l.byKey[key] == nil {
		l.byKey[key] = &line{}
		close(turn)
	}
	l.byKey[key].turns = append(l.byKey[key].turns, turn)
	return turn
}

// queued notes that the first of the line is about to queue on the server.
func (l *lines) queued(key, channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byKey[key].channel = channel
}

// channel returns where the server may wake this line, and whether the caller
// is alone in it.
func (l *lines) channel(key string, turn chan struct{}) (channel string, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[key]
	return line.channel, len(line.turns) == 1 && line.turns[0] == turn
}

// leave removes the caller from the line, wherever it stands in it.
func (l *lines) leave(key string, turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[key]
	i := slices.Index(line.turns, turn)
	line.turns = slices.Delete(line.turns, i, i+1)
	if len(line.turns) == 0 {
		delete(l.byKey, key)
	} else if i == 0 {
		close(line.turns[0])
	}
}
