package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// minSplit and maxSplit bound the random back-off before retrying when no contender won a
// majority. It doubles with each try.
const (
	minSplit = 2 * time.Millisecond
	maxSplit = 256 * time.Millisecond
)

// wait queues the first caller of this process on all masters, and tries again at
// each wake-up.
func (q *Quorum) wait(ctx context.Context, ts []target) (*Lease, error) {
	w := q.queues.wakeups(ts[0].key(), func() *wakeups {
		return &wakeups{q: q, ts: ts, c: make(chan struct{}, 1), places: make([]waiterPlace, len(ts))}
	})
	timer := time.NewTimer(maxPoll)
	defer timer.Stop()
	split := minSplit
	var before votes
	var at time.Time // of the wake-up
	for {
		select {
		case <-w.c: // the next attempt covers it
		default:
		}
		lease, votes, err := q.attempt(ctx, ts, w)
		if ctx.Err() != nil && lease == nil {
			return nil, ctx.Err()
		}
		if err == nil && lease != nil || err != nil && !errors.Is(err, ErrNotHeld) {
			q.masters[0].handedOver(ctx, ts[0], at, wire.Attempt{Status: wire.Acquired}, err)
			return lease, err
		}
		pause, held := votes.left(q.need(), before)
		before = votes
		woken := w.c
		if held {
			split = minSplit
			pause = min(pause+time.Millisecond, maxPoll)
		} else {
			// Losers wake each other when they give back: only a random time tells
			// them apart.
			woken = nil
			pause = split/2 + rand.N(split)
			split = min(2*split, maxSplit)
		}
		timer.Reset(pause)
		at = time.Time{}
		select {
		case <-woken:
			at = time.Now()
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// wakeups has the wake-ups of one wait queue from all masters, and its places in their queues. With
// nil nobody waits.
type wakeups struct {
	q  *Quorum
	ts []target
	c  chan struct{} // has room for one

	mu     sync.Mutex
	ended  bool // the last caller is leaving
	gone   bool // and has left
	places []waiterPlace
}

// A waiterPlace is a place in the queue of one master.
type waiterPlace struct {
	w      *redoubt.Waiter
	queued bool // the master may have the caller in its queue
	stop   chan struct{}
}

// listen returns the entry for the queue of a master; empty if the master can't
// wake it.
func (w *wakeups) listen(ctx context.Context, i int) string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	p := w.places[i]
	w.mu.Unlock()
	if p.w != nil {
		return wire.Entry(p.w)
	}
	waiter, err := w.q.masters[i].client.Waiter(ctx, w.ts[i].name, w.ts[i].key())
	if err != nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.places[i].w != nil {
		waiter.Close()
		return ""
	}
	p = waiterPlace{w: waiter, stop: make(chan struct{})}
	w.places[i] = p
	go func() {
		for {
			select {
			case <-p.stop:
				return
			case <-waiter.C:
				select {
				case w.c <- struct{}{}:
				default:
				}
			}
		}
	}()
	return wire.Entry(waiter)
}

// queued notes that a master may have the caller in its queue.
func (w *wakeups) queued(i int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	p := &w.places[i]
	p.queued = p.w != nil
	late, gone := p.queued && w.ended, w.gone
	w.mu.Unlock()
	if !late {
		return
	}
	// The answer came after the last caller had left: a later wait queue inherits the
	// place, or it is given up.
	if gone && w.q.queues.inheritPlace(w.ts[0].key(), i) {
		return
	}
	w.q.masters[i].cleanUp(context.Background(), w.ts[i].leave("", wire.Entry(p.w)))
}

// leave removes the caller from the wait queue. The last caller leaves the queues of the masters
// first. A caller that joins meanwhile waits for that, or it would lose its places.
func (q *Quorum) leave(ctx context.Context, ts []target, turn chan struct{}) {
	key := ts[0].key()
	if q.queues.leaveToOthers(key, turn) {
		return
	}
	w := q.queues.takeWakeups(key)
	if w == nil {
		q.queues.leave(key, turn)
		return
	}
	q.masters[0].client.Go(func() {
		w.end(ctx)
		q.queues.leave(key, turn)
	})
}

// end leaves the queues and stops listening.
func (w *wakeups) end(ctx context.Context) {
	w.mu.Lock()
	w.ended = true
	places := slices.Clone(w.places)
	w.mu.Unlock()
	_ = w.q.ask(context.WithoutCancel(ctx), w.q.patience(), func(ctx context.Context, i int) error {
		p := places[i]
		if p.w == nil {
			return nil
		}
		close(p.stop)
		defer p.w.Close()
		if !p.queued {
			return nil
		}
		return w.q.masters[i].client.Do(ctx, w.ts[i].leave("", wire.Entry(p.w))).Err
	}, func(int, error) bool { return false })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
}
