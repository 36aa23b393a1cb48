package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/queue"
)

// The id of a message tells its handler what to do.
const (
	plain  = "plain"
	brief  = "brief"  // takes a moment
	long   = "slow"   // takes as long as its lease, and longer
	linger = "linger" // takes seconds, unless its context ends
	fails  = "fails"  // the first time
	panics = "panics" // the first time
	snooze = "snooze" // now and then
	after  = "after"  // the first time
	poison = "poison" // always fails, and may three times
	line1  = "line1"  // of a group, in the order of their numbers
)

const poisonAttempts = 3

// A note is that a handler began with a message, or returned.
type note struct {
	id   string
	what string // began, done, undone
	at   time.Time
}

const began, done, undone = "began", "done", "undone"

func (n note) String() string { return fmt.Sprintf("%s %s %d", n.id, n.what, n.at.UnixNano()) }

func readNote(text string) (n note, err error) {
	var at int64
	if _, err := fmt.Sscanf(text, "%s %s %d", &n.id, &n.what, &at); err != nil {
		return n, fmt.Errorf("%q: %w", text, err)
	}
	n.at = time.Unix(0, at)
	return n, nil
}

// told is a handler that does what a message's id says.
func told(ttl time.Duration, note1 func(note)) queue.Handler[string] {
	return func(ctx context.Context, d *queue.Delivery[string]) (err error) {
		note1(note{d.ID, began, time.Now()})
		defer func() {
			what := done
			v := recover()
			if err != nil || v != nil {
				what = undone
			}
			note1(note{d.ID, what, time.Now()})
			if v != nil {
				panic(v)
			}
		}()
		kind, _, _ := strings.Cut(d.ID, ":")
		first := d.Attempt == 1
		switch {
		case kind == brief:
			pause(ctx, 20*time.Millisecond)
		case kind == long:
			pause(ctx, ttl+ttl/3)
			return ctx.Err()
		case kind == linger:
			pause(ctx, 3*time.Second)
			return ctx.Err()
		case kind == fails && first, kind == poison && d.Attempt%2 == 1:
			return errors.New("as told")
		case kind == panics && first, kind == poison:
			panic("as told")
		case kind == after && first:
			return queue.After(ttl/10, errors.New("as told"))
		case kind == snooze && rand.IntN(2) == 0: // which process handles a message can't be repeated either
			return queue.Snooze(ttl / 10)
		}
		return nil
	}
}

// A ledger has what was put and what became of it.
type ledger struct {
	mu    sync.Mutex
	puts  map[string]time.Time // when a message is due at the earliest
	late  map[string]bool      // the ones that were put for later
	acked map[string]bool      // the ones whose Put has returned
	began map[string][]time.Time
	done  map[string]time.Time // for the first time
}

func newLedger() *ledger {
	return &ledger{puts: map[string]time.Time{}, late: map[string]bool{}, acked: map[string]bool{}, began: map[string][]time.Time{}, done: map[string]time.Time{}}
}

// put is to be noted before the call.
func (l *ledger) put(id string, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.puts[id], l.late[id] = time.Now().Add(delay), delay > 0
}

func (l *ledger) ack(ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.acked[id] = true
	}
}

func (l *ledger) add(n note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch n.what {
	case began:
		l.began[n.id] = append(l.began[n.id], n.at)
	case done:
		if first, ok := l.done[n.id]; !ok || n.at.Before(first) {
			l.done[n.id] = n.at
		}
	}
}

// undone returns the messages whose Put has returned and no handler has.
func (l *ledger) undone() (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.acked {
		if _, ok := l.done[id]; !ok && !strings.HasPrefix(id, poison) {
			ids = append(ids, id)
		}
	}
	return ids
}

// again is how often messages came that had come before.
func (l *ledger) again() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.began {
		n += len(times) - 1
	}
	return n
}

// doubles are how often messages came that had been done.
func (l *ledger) doubles() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, first := range l.done {
		for _, at := range l.began[id] {
			if at.After(first) {
				n++
			}
		}
	}
	return n
}

// checkTimes wants nothing to have come before it was due.
func (l *ledger) checkTimes(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, due := range l.puts {
		for _, at := range l.began[id] {
			if at.Before(due) {
				t.Errorf("%s came %v before it was due", id, due.Sub(at))
			}
		}
	}
}

// checkLines wants the messages of a group to have begun when those before them
// were done.
func (l *ledger) checkLines(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	type place struct {
		id string
		n  int
	}
	groups := map[string][]place{}
	for id := range l.began {
		var group string
		var n int
		if _, err := fmt.Sscanf(strings.ReplaceAll(id, ":", " "), line1+" %s %d", &group, &n); err == nil {
			groups[group] = append(groups[group], place{id, n})
		}
	}
	for _, places := range groups {
		slices.SortFunc(places, func(a, b place) int { return a.n - b.n })
		for i, p := range places[min(1, len(places)):] {
			before := places[i].id
			if finished, ok := l.done[before]; !ok || slices.MinFunc(l.began[p.id], time.Time.Compare).Before(finished) {
				t.Errorf("%s began before %s was done", p.id, before)
			}
		}
	}
}

// checkPoison wants no message to have come more often than it may fail, unless the
// server may have lost that it failed.
func (l *ledger) checkPoison(t *testing.T, loses bool) (n int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, times := range l.began {
		if strings.HasPrefix(id, poison) {
			n++
			if len(times) > poisonAttempts && !loses {
				t.Errorf("%s came %d times", id, len(times))
			}
		}
	}
	return n
}

// workOrders are the orders to a consumer in a process of its own.
type workOrders struct {
	Invitation, Prefix string
	Names              []string
	Lease, TTL         time.Duration // TTL is for what its handlers wait
	Concurrency        int
}
