package stock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/faultnet"
	"github.com/redoubt-go/redoubt/stock"
)

// What a process asked of an item, as an operation in a history.
type event struct {
	name string
	what string
	id   int
	n    int64
}

// What it was told. Nothing, when the call failed: then it may have had its
// effect, at any later time too.
type answer struct {
	known           bool
	status          stock.Status
	available, sold int64 // of info
}

const (
	// reserved, committed and cancelled are calls by an id; added and counted
	// are Add and Info.
	reserved  = "reserve"
	committed = "commit"
	cancelled = "cancel"
	added     = "add"
	counted   = "info"
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
	status          [maxIDs]stock.Status
	void            [maxIDs]bool // cancelled before it reserved anything
}

// Units that are available, held or sold, and reservations that end once. What
// a call does depends on the state alone, so one whose answer is not known does
// the same, at a time that is not known.
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
	Init: func() any { return ledger{available: historyUnits} },
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
			a.status = stock.Cancelled
		case s.status[e.id] != stock.None:
			a.status = s.status[e.id]
		case s.available >= e.n:
			a.status = stock.Reserved
			s.available -= e.n
			s.n[e.id], s.status[e.id] = int8(e.n), stock.Reserved
		}
	case committed, cancelled:
		if s.status[e.id] == stock.Reserved {
			s.end(e.id, map[string]stock.Status{committed: stock.Committed, cancelled: stock.Cancelled}[e.what])
		} else if s.status[e.id] == stock.None && e.what == cancelled {
			s.void[e.id] = true
		}
		a.status = s.status[e.id]
	case ranOut:
		if s.status[e.id] == stock.Reserved {
			s.end(e.id, stock.Expired)
		}
	case added:
		s.available += e.n
	case counted:
		a.available, a.sold = s.available, s.sold
	}
	return a
}

func (s *ledger) end(id int, how stock.Status) {
	s.status[id] = how
	if how == stock.Committed {
		s.sold += int64(s.n[id])
	} else {
		s.available += int64(s.n[id])
	}
}

// A history is what several processes did, with times since its beginning.
type history struct {
	began time.Time
	ids   map[string]*atomic.Int64 // how many of each item are in use

	mu     sync.Mutex
	ops    []porcupine.Operation
	counts map[string]int
}

const (
	historyUnits = 12
	historyTTL   = 120 * time.Millisecond
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

// Several processes buy a few items over networks that delay, cut, hold back and
// swallow. Whatever order the answers came in, there is an order in which one
// stock could have given them.
//
// HISTORY=10m go test -run TestHistory -timeout 1h ./stock runs it for ten
// minutes on each back end instead of two seconds.
func TestHistory(t *testing.T) {
	length := 2 * time.Second
	if s := os.Getenv("HISTORY"); s != "" {
		var err error
		length, err = time.ParseDuration(s)
		must(t, err)
	}
	each(t, func(t *testing.T, w *world) {
		const n = 4
		var processes []*process
		for i := range n {
			proxy := faultnet.New(t, w.Addr)
			rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, ReadTimeout: historyTTL})
			t.Cleanup(func() { _ = rdb.Close() })
			processes = append(processes, &process{id: i, proxy: proxy, items: w.itemsOn(w.clientOn(w.wrap(rdb)))})
		}
		total := map[string]int{}
		began := time.Now()
		for round := 0; !t.Failed(); round++ {
			if took := time.Since(began); took > 10*length || took > length && len(missing(total)) == 0 {
				break
			}
			names := []string{fmt.Sprint("a", round), fmt.Sprint("b", round)}
			h := &history{began: time.Now(), ids: map[string]*atomic.Int64{}, counts: map[string]int{}}
			for _, name := range names {
				_, err := w.items().Set(t.Context(), name, historyUnits)
				must(t, err)
				h.ids[name] = new(atomic.Int64)
			}
			var wg sync.WaitGroup
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			for i, p := range processes {
				seed := uint64(round*n + i)
				wg.Go(func() { p.disturb(ctx, rand.New(rand.NewPCG(seed, 1))) })
				wg.Go(func() { p.work(ctx, rand.New(rand.NewPCG(seed, 2)), h, names) })
			}
			wg.Wait()
			cancel()
			h.check(t)
			for what, n := range h.counts {
				total[what] += n
			}
			for _, name := range names {
				w.audit(t, name)
			}
		}
		t.Log(total)
		for _, what := range missing(total) {
			t.Errorf("there was no %q: the test shows nothing", what)
		}
	})
}

// missing returns what should have happened and has not.
func missing(total map[string]int) (what []string) {
	for _, w := range []string{
		"unknown", "reserve 1", "reserve 0", "commit -1", "cancel -2", "commit -3", "cancel -3", "commit 0", "cancel 0",
	} {
		if total[w] == 0 {
			what = append(what, w)
		}
	}
	return what
}

// A process of the history has connections of its own.
type process struct {
	id    int
	proxy *faultnet.Proxy
	items *stock.Inventory
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// disturb disturbs the network of the process until ctx ends.
func (p *process) disturb(ctx context.Context, rng *rand.Rand) {
	heal := func() {
		p.proxy.Heal()
		p.proxy.Delay(0)
	}
	defer heal()
	for ctx.Err() == nil {
		switch rng.IntN(6) {
		case 0:
			p.proxy.Delay(upTo(rng, historyTTL/10))
		case 1:
			p.proxy.Cut()
		case 2:
			p.proxy.Blackhole(faultnet.ToClient)
		case 3:
			p.proxy.Blackhole(faultnet.ToServer)
		case 4:
			p.proxy.SwallowNextReply("EVALSHA")
		}
		pause(ctx, upTo(rng, historyTTL/2))
		heal()
		pause(ctx, upTo(rng, historyTTL))
	}
}

// work reserves, commits and cancels until ctx ends.
func (p *process) work(ctx context.Context, rng *rand.Rand, h *history, names []string) {
	var mine, next = "", event{}
	for ctx.Err() == nil {
		e := event{name: names[rng.IntN(len(names))], n: 1 + rng.Int64N(3)}
		used := int(min(h.ids[e.name].Load(), maxIDs-1))
		if used > 0 {
			e.id = max(0, used-1-rng.IntN(4)) // one of the last, whoever's it is
		}
		switch way := rng.IntN(20); {
		case mine != "" && way < 12: // go on with what was reserved here
			e, mine = next, ""
			e.what = committed
			if way < 4 {
				e.what = cancelled
			}
			wait := historyTTL / 2
			if way%4 == 0 { // until it has run out, it may be
				wait = 2 * historyTTL
			}
			pause(ctx, upTo(rng, wait))
		case way < 14 && used < maxIDs-1:
			e.what, e.id = reserved, int(h.ids[e.name].Add(1))-1
			if e.id >= maxIDs {
				continue
			}
			mine, next = e.name, e
		case way < 15:
			e.what = committed
		case way < 17:
			e.what = cancelled
		case way < 18:
			e.what, e.n = added, 2
		default:
			e.what = counted
		}
		p.call(ctx, rng, h, e)
		pause(ctx, upTo(rng, historyTTL/20))
	}
}

// call makes one call and writes it down.
func (p *process) call(ctx context.Context, rng *rand.Rand, h *history, e event) {
	if rng.IntN(8) == 0 { // an impatient one
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, upTo(rng, historyTTL/10))
		defer cancel()
	}
	id := fmt.Sprint("id", e.id)
	call := time.Now()
	a, err := answer{known: true}, error(nil)
	switch e.what {
	case reserved:
		var r *stock.Reservation
		r, _, err = p.items.ReserveRequest(ctx, e.name, stock.Request{ID: id, N: e.n, TTL: historyTTL})
		if r != nil {
			a.status = stock.Reserved
		}
	case committed:
		a.status = stock.Committed
		err = p.items.Commit(ctx, e.name, id)
	case cancelled:
		a.status = stock.Cancelled
		err = p.items.Cancel(ctx, e.name, id)
	case added:
		_, err = p.items.Add(ctx, e.name, e.n)
	case counted:
		var i stock.Info
		i, err = p.items.Info(ctx, e.name)
		a.available, a.sold = i.Available, i.Sold
	}
	ret := time.Now()
	over := false
	for s, is := range map[stock.Status]error{
		stock.Committed: stock.ErrCommitted, stock.Cancelled: stock.ErrCancelled, stock.Expired: stock.ErrExpired, stock.None: stock.ErrNotFound,
	} {
		if errors.Is(err, is) {
			a.status, err, over = s, nil, true
		}
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
			h.add(p.id, e, answer{}, call, time.Time{})
		}
		ends := time.Time{}
		if !ret.IsZero() && !over {
			ends = ret.Add(historyTTL + slack)
		}
		h.add(p.id, event{name: e.name, what: ranOut, id: e.id}, answer{}, call.Add(historyTTL-slack), ends)
	}
	h.add(p.id, e, a, call, ret)
}
