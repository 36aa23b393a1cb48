package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
)

// maxPoll bounds how long a waiter relies on a wake-up that may have been lost
// with the process that got it. Below it, a waiter asks again only when the
// lease that it saw would end.
var maxPoll = 30 * time.Second // changed by tests

// Acquire acquires the lock called name. It waits while others hold it, until
// ctx ends, and then returns ctx's error; what it left on the server is undone in
// the background, at the latest by the TTL. A ctx that can't end waits for ever.
//
// It costs one round trip when the lock is free. Otherwise it waits for a
// wake-up from the server, in no promised order: of all the callers that
// wait for one name with one Client only the first is known to the server, and
// releasing the lock wakes one of those. A wake-up that got lost delays the
// waiter to the end of the lease that it saw, at most 30 s.
func (m *Mutex) Acquire(ctx context.Context, name string) (*Lease, error) {
	key, err := Key(m.client, name)
	if err != nil {
		return nil, err
	}
	for {
		r := Request{ID: NewID(), TTL: m.opts.TTL, Label: m.opts.Label}
		sent, a, err := m.acquire(ctx, name, key, r)
		switch {
		case errors.Is(err, redoubt.ErrUnknownOutcome):
			m.cleanUp(ctx, voidCmd(key, r.ID))
			return nil, err
		case err != nil:
			return nil, err
		case a.Status == Acquired:
			return newLease(m, name, key, r.ID, a.Fence, sent, a.TTL), nil
		}
		// It was acquired, and over before its reply came: try anew.
	}
}

// A Request is one acquisition with an id, a TTL and a label of its own.
type Request struct {
	// ID names the acquisition: see [NewID]. A request that is repeated with
	// the same ID gets the same answer. Not empty, at most [MaxLabel] bytes.
	ID string
	// TTL is how long the lease lasts, as in [Options]. Nobody renews it.
	TTL time.Duration
	// Label is shown to whoever finds the lock busy. At most [MaxLabel] bytes.
	Label string
}

// AcquireRequest acquires the lock called name as [Mutex.Acquire] does, but
// gives no [Lease]: whoever knows the ID extends and releases the lock, by
// [ExtendCmd] and [ReleaseCmd]. The Attempt's Status is Acquired, or Over when
// the ID held the lock before. This is how LOCK.ACQUIRE waits.
//
// When ctx ends, what is left on the server is undone in the background. After
// another error that matches
// redoubt.ErrUnknownOutcome the lock may have been acquired: repeat the request
// with the same ID, or release it.
func (m *Mutex) AcquireRequest(ctx context.Context, name string, r Request) (Attempt, error) {
	key, err := Key(m.client, name)
	if err != nil {
		return Attempt{}, err
	}
	if err := r.check(); err != nil {
		return Attempt{}, err
	}
	_, a, err := m.acquire(ctx, name, key, r)
	if ctx.Err() != nil && errors.Is(err, redoubt.ErrUnknownOutcome) {
		m.cleanUp(ctx, voidCmd(key, r.ID))
	}
	return a, err
}

func (r Request) check() error {
	errs := []error{CheckTTL(r.TTL)}
	if len(r.ID) == 0 || len(r.ID) > MaxLabel {
		errs = append(errs, fmt.Errorf("lock: id has %d bytes; want 1 to %d", len(r.ID), MaxLabel))
	}
	if len(r.Label) > MaxLabel {
		errs = append(errs, fmt.Errorf("lock: label has %d bytes; want at most %d", len(r.Label), MaxLabel))
	}
	return errors.Join(errs...)
}

// acquire waits until the lock is not held by another. sent is when the
// attempt was sent that a answers. After an error that matches
// redoubt.ErrUnknownOutcome the caller has to say what becomes of the id.
func (m *Mutex) acquire(ctx context.Context, name, key string, r Request) (sent time.Time, a Attempt, err error) {
	if err := ctx.Err(); err != nil {
		return sent, a, err
	}
	if m.lines.empty(key) {
		sent, a, err = m.attempt(ctx, key, r, "")
		if err != nil || a.Status != Held {
			return sent, a, err
		}
	}
	turn := m.lines.join(key)
	select {
	case <-turn:
	case <-ctx.Done():
		m.giveUp(ctx, key, turn)
		return sent, a, ctx.Err()
	}
	sent, a, err = m.wait(ctx, name, key, r)
	if err != nil || a.Status == Over {
		m.giveUp(ctx, key, turn)
	} else {
		m.lines.leave(key, turn)
	}
	return sent, a, err
}

// wait is for the first caller in this process's line: it queues on the server
// and tries again at each wake-up.
func (m *Mutex) wait(ctx context.Context, name, key string, r Request) (sent time.Time, a Attempt, err error) {
	w, err := m.client.Waiter(ctx, name, key)
	if err != nil {
		return sent, a, err
	}
	defer w.Close()
	m.lines.queued(key, entry(w))
	timer := time.NewTimer(maxPoll)
	defer timer.Stop()
	for {
		sent, a, err = m.attempt(ctx, key, r, entry(w))
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
func (m *Mutex) attempt(ctx context.Context, key string, r Request, waiter string) (sent time.Time, a Attempt, err error) {
	sent = time.Now()
	a, err = ReadAttempt(m.client.Do(ctx, acquireCmd(key, r.ID, r.TTL, r.Label, waiter)))
	return sent, a, err
}

// giveUp leaves the line without the lock.
//
// If somebody stands behind, nothing else is to do: the next one tries at once
// and takes over the place in the server's queue. The last one gives up that
// place, which wakes another process if this one has just been woken for
// nothing. The caller is not kept until that is done, but who joins the line
// meanwhile is, or would lose the place that it has just taken.
func (m *Mutex) giveUp(ctx context.Context, key string, turn chan struct{}) {
	waiter, last := m.lines.waiter(key, turn)
	if !last || waiter == "" {
		m.lines.leave(key, turn)
		return
	}
	m.client.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		_ = m.client.Do(ctx, leaveCmd(key, waiter))
		m.lines.leave(key, turn)
	})
}

// linesKey is where a client keeps the lines of all its Mutexes.
type linesKey struct{}

// lines are the callers that wait with one client, by key.
type lines struct {
	mu    sync.Mutex
	byKey map[string]*line
}

// A line is the callers that wait for one key, in order. The first has the
// turn: the others are unknown to the server.
type line struct {
	turns  []chan struct{} // closed when the caller is first
	waiter string          // how this line stands in the server's queue, once it does
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
func (l *lines) queued(key, waiter string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byKey[key].waiter = waiter
}

// waiter returns how this line stands in the server's queue, and whether the
// caller is alone in it.
func (l *lines) waiter(key string, turn chan struct{}) (waiter string, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[key]
	return line.waiter, len(line.turns) == 1 && line.turns[0] == turn
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
