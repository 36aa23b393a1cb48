package stock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/faults"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
	"github.com/redoubt-go/redoubt/stock"
)

// An event is a process's request for an item, as an operation in a history.
type event struct {
	name string
	what string
	id   int
	n    int64
}

// An answer is the reply to a request. It is empty when the call failed: the call may then have taken effect, or
// may take effect at any later time.
type answer struct {
	known           bool
	status          wire.Status
	available, sold int64 // of info
}

const (
	// reserved, committed and cancelled are calls by an id; added and counted
	// are Add and Info.
	reserved  = "reserve"
	committed = "commit"
	cancelled = "cancel"
	added     = "add"
	// flushed is a FLUSHALL.
	flushed = "flush"
	counted = "info"
	// ranOut is no call: the time of a reservation is over, if it still holds
	// anything. It can happen no earlier than the TTL after the reserve was
	// called and no later than that after it returned.
	ranOut = "runs out"
)

const maxIDs = 96

// ledger is the state of one item.
type ledger struct {
	available, sold int64
	n               [maxIDs]int8
	status          [maxIDs]wire.Status
	void            [maxIDs]bool // cancelled before it reserved anything
}

// Units that are available, held or sold, and reservations that end once. A
// call's effect depends on the state alone, so a call with an unknown answer has the same effect, at an
// unknown time.
var stockModel = porcupine.Model{
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
		byName := map[string][]porcupine.Operation{}
		for _, op := range ops {
			name := op.Input.(event).name
			byName[name] = append(byName[name], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byName {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return ledger{} },
	Step: func(state, input, output any) (bool, any) {
		s, e, a := state.(ledger), input.(event), output.(answer)
		want := s.step(e)
		return !a.known || a == want, s
	},
	DescribeOperation: func(input, output any) string {
		e, a := input.(event), output.(answer)
		return fmt.Sprintf("%s %d ×%d: %+v", e.what, e.id, e.n, a)
	},
}

func (s *ledger) step(e event) answer {
	a := answer{known: true}
	switch e.what {
	case reserved:
		switch {
		case s.void[e.id]:
			a.status = wire.Cancelled
		case s.status[e.id] != wire.None:
			a.status = s.status[e.id]
		case s.available >= e.n:
			a.status = wire.Reserved
			s.available -= e.n
			s.n[e.id], s.status[e.id] = int8(e.n), wire.Reserved
		}
	case committed, cancelled:
		if s.status[e.id] == wire.Reserved {
			s.end(e.id, map[string]wire.Status{committed: wire.Committed, cancelled: wire.Cancelled}[e.what])
		} else if s.status[e.id] == wire.None && e.what == cancelled {
			s.void[e.id] = true
		}
		a.status = s.status[e.id]
	case ranOut:
		if s.status[e.id] == wire.Reserved {
			s.end(e.id, wire.Expired)
		}
	case added:
		s.available += e.n
	case flushed:
		*s = ledger{}
	case counted:
		a.available, a.sold = s.available, s.sold
	}
	return a
}

func (s *ledger) end(id int, how wire.Status) {
	s.status[id] = how
	if how == wire.Committed {
		s.sold += int64(s.n[id])
	} else {
		s.available += int64(s.n[id])
	}
}

// A history is what several processes did, with times since its beginning.
type history struct {
	began time.Time

	mu     sync.Mutex
	ops    []porcupine.Operation
	counts map[string]int
}

const (
	historyUnits = 12
	// slack is for the clocks: this process's is read before a call and after,
	// the server's is in whole microseconds.
	slack = time.Millisecond
)

func (h *history) add(process int, e event, a answer, call, ret time.Time) {
	op := porcupine.Operation{ClientId: process, Input: e, Output: a, Call: int64(call.Sub(h.began)), Return: math.MaxInt64}
	if !ret.IsZero() {
		op.Return = int64(ret.Sub(h.began))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	switch {
	case !a.known:
		h.counts["unknown"]++
	case e.what == committed || e.what == cancelled || e.what == reserved:
		h.counts[fmt.Sprint(e.what, " ", a.status)]++
	}
}

func (h *history) check(t *testing.T) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(stockModel, h.ops, time.Minute)
	if result != porcupine.Ok {
		file := filepath.Join(t.ArtifactDir(), "history.html")
		if err := porcupine.VisualizePath(stockModel, info, file); err != nil {
			t.Error(err)
		}
		t.Errorf("the history is not that of a stock: %s; with -artifacts it is kept in %s", result, file)
	}
}

// wanted is what should happen.
func wanted(f faults.Fault) []string {
	wanted := []string{"reserve 1", "commit -1", "cancel -2"}
	if f.Name == faults.All[0].Name { // the others are about the fault
		wanted = append(wanted, "unknown", "reserve 0", "commit -3", "cancel -3", "commit 0", "cancel 0")
	}
	return wanted
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// work reserves, commits and cancels until ctx ends.
func (w *worker) work(ctx context.Context, rng *rand.Rand, names []string) {
	var mine, next = "", event{}
	for ctx.Err() == nil {
		e := event{name: names[rng.IntN(len(names))], n: 1 + rng.Int64N(3)}
		e.id = w.ids.last(rng, e.name)
		switch way := rng.IntN(20); {
		case mine != "" && way < 12: // go on with what was reserved here
			e, mine = next, ""
			e.what = committed
			if way < 4 {
				e.what = cancelled
			}
			wait := w.ttl / 2
			if way%4 == 0 { // until it has run out, it may be
				wait = 2 * w.ttl
			}
			pause(ctx, upTo(rng, wait))
		case way < 14:
			var ok bool
			if e.id, ok = w.ids.next(e.name); !ok {
				pause(ctx, w.ttl/20)
				continue
			}
			e.what, mine = reserved, e.name
			next = e
		case way < 15:
			e.what = committed
		case way < 17:
			e.what = cancelled
		case way < 18:
			e.what, e.n = added, 2
		default:
			e.what = counted
		}
		w.call(ctx, rng, e)
		pause(ctx, upTo(rng, w.ttl/20))
	}
}

// call makes one call and writes it down.
func (w *worker) call(ctx context.Context, rng *rand.Rand, e event) {
	if rng.IntN(8) == 0 { // an impatient one
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, upTo(rng, w.ttl/10))
		defer cancel()
	}
	id := fmt.Sprint("id", e.id)
	call := time.Now()
	a, err := answer{known: true}, error(nil)
	switch e.what {
	case reserved:
		var r *stock.Reservation
		r, _, err = w.items.ReserveRequest(ctx, e.name, stock.Request{ID: id, N: e.n, TTL: w.ttl})
		if r != nil {
			a.status = wire.Reserved
		}
	case committed:
		a.status = wire.Committed
		err = w.items.Commit(ctx, e.name, id)
	case cancelled:
		a.status = wire.Cancelled
		err = w.items.Cancel(ctx, e.name, id)
	case added:
		_, err = w.items.Add(ctx, e.name, e.n)
	case counted:
		var i stock.Info
		i, err = w.items.Info(ctx, e.name)
		a.available, a.sold = i.Available, i.Sold
	}
	ret := time.Now()
	over := false
	for s, is := range map[wire.Status]error{
		wire.Committed: stock.ErrCommitted, wire.Cancelled: stock.ErrCancelled, wire.Expired: stock.ErrExpired, wire.None: stock.ErrNotFound,
	} {
		if errors.Is(err, is) {
			a.status, err, over = s, nil, true
		}
	}
	if e.what == counted && w.step < 0 { // Info ends nothing: what has run out holds again after a step back
		a = answer{}
	}
	switch {
	case err != nil && !errors.Is(err, redoubt.ErrUnknownOutcome) && e.what != reserved:
		return // it was never sent
	case err != nil:
		a, ret = answer{}, time.Time{}
	}
	if e.what == reserved {
		if over {
			// It was sent twice: the first took the units, and what the second
			// was told is what became of them. So there were two.
			w.add(e, answer{}, call, time.Time{})
		}
		// A clock that is stepped, twice, makes it earlier or later.
		starts, ends := call.Add(w.ttl-slack-max(0, 2*w.step)), time.Time{}
		if !ret.IsZero() && !over {
			ends = ret.Add(w.ttl + slack - min(0, 2*w.step))
		}
		if starts.Before(call) {
			starts = call
		}
		w.add(event{name: e.name, what: ranOut, id: e.id}, answer{}, starts, ends)
	}
	w.add(e, a, call, ret)
}
