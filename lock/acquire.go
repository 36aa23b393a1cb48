package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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
	if f.lines.empty(t.key()) {
		sent, a, err = f.attempt(ctx, t, r, "")
		if err != nil || a.Status != wire.Held {
			return sent, a, err
		}
	}
	turn := f.lines.join(t.key())
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
		f.lines.leave(t.key(), turn)
	}
	return sent, a, err
}

// wait queues the first caller of this process's line on the server, and tries again at
// each wake-up.
func (f *family) wait(ctx context.Context, t target, r Request) (sent time.Time, a wire.Attempt, err error) {
	w, err := f.client.Waiter(ctx, t.name, t.key())
	if err != nil {
		return sent, a, err
	}
	defer w.Close()
	line := f.lines.queued(t.key(), wire.Entry(w))
	timer := time.NewTimer(maxPoll)
	defer timer.Stop()
	for {
		sent, a, err = f.queue(ctx, t, r, wire.Entry(w), line)
		if err != nil || a.Status != wire.Held {
			return sent, a, err
		}
		// A little after the end of the lease, so as not to come too early.
		timer.Reset(min(a.TTL+time.Millisecond, maxPoll))
		if err := f.sleep(ctx, t, r.ID, line, w.C, timer.C); err != nil {
			return sent, a, err
		}
	}
}

// sleep blocks until it is time for another try, and claims meanwhile.
func (f *family) sleep(ctx context.Context, t target, id string, line *line, woken <-chan struct{}, poll <-chan time.Time) error {
	var beat <-chan time.Time
	claim := func() {}
	if c, ok := t.kind.(claimer); ok {
		// If this fails, the lock is acquired nevertheless, though later.
		claim = func() {
			line.queue(ctx, f.client, func(ctx context.Context) { _ = f.client.Do(ctx, c.claim(t.keys, id)) }, func(context.Context) {})
		}
		ticker := time.NewTicker(claimAgain)
		defer ticker.Stop()
		beat = ticker.C
	}
	for {
		claim()
		select {
		case <-woken:
			return nil
		case <-poll:
			return nil
		case <-ctx.Done():
			return ctx.Err()
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
func (f *family) queue(ctx context.Context, t target, r Request, waiter string, line *line) (time.Time, wire.Attempt, error) {
	var got struct {
		sent time.Time
		a    wire.Attempt
		err  error
	}
	answered := line.queue(ctx, f.client, func(ctx context.Context) {
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

// giveUp removes the caller from the line without the lock.
func (f *family) giveUp(ctx context.Context, t target, id string, turn chan struct{}) {
	_, claims := t.kind.(claimer)
	f.lines.giveUp(ctx, f.client, t.key(), turn, claims, func(waiter string) redoubt.Cmd { return t.leave(id, waiter) })
}

// giveUp removes a caller that stops waiting from the line.
//
// If another caller stands behind, it tries at once and takes over the place in the
// server's queue. The last caller gives up that place, which wakes another process if
// this one was just woken for nothing, and takes its claim back. The caller doesn't wait
// for that. A caller that joins the line meanwhile does, or it would lose the place that
// it has just taken.
func (l *lines) giveUp(ctx context.Context, client *redoubt.Client, key string, turn chan struct{}, claims bool, leave func(waiter string) redoubt.Cmd) {
	waiter, last, out := l.quit(key, turn, claims)
	if out {
		return
	}
	underWay := l.underWay(key)
	client.Go(func() {
		ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), 2*cleanUpTimeout)
		defer cancel()
		underWay.Wait()
		if !last {
			_ = client.Do(ctx, leave(""))
			if l.passOn(key) {
				return
			}
			// The callers behind have left meanwhile, and left the place to this one.
		}
		_ = client.Do(ctx, leave(waiter))
		l.leave(key, turn)
	})
}

// linesKey is where a client keeps the lines of all its locks.
type linesKey struct{}

// linesOf returns the lines of client. The server knows the client and not its Mutexes,
// so they share one line.
func linesOf(client *redoubt.Client) *lines {
	return client.Shared(linesKey{}, func() any { return new(lines) }).(*lines)
}

// quorumLinesKey is where the first client of a Quorum keeps its lines. All Quorums on the
// same masters share them.
type quorumLinesKey [MaxMasters]*redoubt.Client

// lines are the callers that wait with one client, by key.
type lines struct {
	mu    sync.Mutex
	byKey map[string]*line

	listening atomic.Bool // wake-ups arrive without a subscription of their own
}

// A line is the callers that wait for one key, in order. The server knows only the first
// one.
type line struct {
	turns  []chan struct{} // closed when the caller is first
	waiter string          // the entry of this line in the server's queue; empty before

	// underWay counts the commands under way that queue the line, or claim.
	underWay sync.WaitGroup

	wakeups *wakeups // of a [Quorum]
}

// queue calls send, which puts the line into the server's queue or claims, and reports
// whether it returned before ctx ended. Otherwise send goes on in the background, followed
// by late: leaving the queue earlier is not certain, because the leave might overtake the
// command of send.
func (l *line) queue(ctx context.Context, client *redoubt.Client, send, late func(ctx context.Context)) (answered bool) {
	back := make(chan struct{})
	l.underWay.Add(1)
	client.Go(func() {
		defer l.underWay.Done()
		long, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(cleanUpTimeout, cancel) })()
		send(long)
		select {
		case back <- struct{}{}:
		case <-ctx.Done():
			late(long)
		}
	})
	select {
	case <-back:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *lines) empty(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byKey[key] == nil
}

// join appends the caller to the line. It closes the channel when the caller is first.
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
func (l *lines) queued(key, waiter string) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byKey[key].waiter = waiter
	return l.byKey[key]
}

// underWay returns the count of the commands that queue this line.
func (l *lines) underWay(key string) *sync.WaitGroup {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &l.byKey[key].underWay
}

// quit removes the caller from the line, unless the caller has to see to the server's
// queue. Then out is false, the caller stays first, waiter is the line's entry in that
// queue, and last reports whether no caller stands behind. It is one step: otherwise the
// callers behind might leave in between, each leaving the entry to another, and the
// server would later wake a client without waiters.
func (l *lines) quit(key string, turn chan struct{}, claims bool) (waiter string, last, out bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[key]
	if line == nil || !slices.Contains(line.turns, turn) {
		return "", false, true // disbanded
	}
	last = len(line.turns) == 1
	if line.turns[0] == turn && line.waiter != "" && (last || claims) {
		return line.waiter, last, false
	}
	l.remove(key, turn)
	return "", false, true
}

// first reports whether the caller is first in the line; false after disband.
func (l *lines) first(key string, turn chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byKey[key] != nil && l.byKey[key].turns[0] == turn
}

// disband gives every caller in the line its turn: the wait has ended for all of them.
func (l *lines) disband(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[key]
	delete(l.byKey, key)
	for _, turn := range line.turns[1:] {
		close(turn)
	}
}

// passOn removes the caller, which is first, if another caller stands behind.
func (l *lines) passOn(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[key]
	if len(line.turns) == 1 {
		return false
	}
	line.turns = slices.Delete(line.turns, 0, 1)
	close(line.turns[0])
	return true
}

// leave removes the caller from the line, wherever it stands.
func (l *lines) leave(key string, turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(key, turn)
}

// remove is leave with l.mu held.
func (l *lines) remove(key string, turn chan struct{}) {
	line := l.byKey[key]
	if line == nil {
		return // disbanded
	}
	i := slices.Index(line.turns, turn)
	if i < 0 {
		return // disbanded, and this is another line
	}
	line.turns = slices.Delete(line.turns, i, i+1)
	if len(line.turns) == 0 {
		delete(l.byKey, key)
	} else if i == 0 {
		close(line.turns[0])
	}
}
