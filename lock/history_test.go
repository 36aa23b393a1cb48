package lock_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/lock"
)

// An event of a lock, as an operation in a history. The fence names the
// lease.
type event struct {
	name  string
	what  string
	fence int64
	// For kinds that have several leases at once.
	id     string
	shared bool
}

const (
	// acquired: somebody got the lease.
	acquired = "acquired"
	// extended: an extension was confirmed.
	extended = "extended"
	// ended: the lease is over. It is called when the lease is over at the
	// holder, at the release or the deadline, and returns when its release has
	// been confirmed; if that never came, at the end of time.
	ended = "ended"
	// busy: somebody else found the lock held by this lease.
	busy = "busy"
	// strange: so, but the client that acquired that lease never learnt of it.
	strange = "strange"

	// wrote: a fenced register let a write through. refused: it did not. tried:
	// nobody knows. is: what is written in it.
	wrote, refused, tried, is = "wrote", "refused", "tried", "is"
	// lost is no operation: a call had no answer.
	lost = "lost"
)

// held is the state of one lock: the fence of the holder, 0 when nobody holds
// it, and the largest fence so far.
type held struct{ holder, fence int64 }

// One holder at a time, with fences that rise. An acquire whose outcome a client never
// learnt is no operation: a client that sees such a lease says so. It may end at
// any time, but hold the lock only while nobody else does.
var lockModel = porcupine.Model{
	Partition: byName,
	Init:      func() any { return held{} },
	Step: func(state, input, _ any) (bool, any) {
		s, e := state.(held), input.(event)
		switch e.what {
		case acquired:
			return s.holder == 0 && e.fence > s.fence, held{e.fence, e.fence}
		case ended:
			return s.holder == e.fence, held{0, s.fence}
		case strange:
			return s.holder == 0 && e.fence >= s.fence, held{0, e.fence}
		default: // extended, busy
			return s.holder == e.fence, s
		}
	},
	DescribeOperation: describe,
}

// tokenModel is all that is left when the server loses what it acknowledged, or
// its clock jumps: tokens that rise. Readers have the tokens of writers.
var tokenModel = porcupine.Model{
	Partition: byName,
	Init:      func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		s, e := state.(int64), input.(event)
		if e.what != acquired || e.shared {
			return true, s
		}
		return e.fence > s, e.fence
	},
	DescribeOperation: describe,
}

// registerModel is a register that lets no write through whose token is smaller
// than the largest so far.
var registerModel = porcupine.Model{
	Partition: byName,
	Init:      func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		s, e := state.(int64), input.(event)
		switch e.what {
		case wrote:
			return e.fence >= s, e.fence
		case refused:
			return e.fence < s, s
		case is:
			return e.fence == s, s
		default: // tried
			return true, max(s, e.fence)
		}
	},
	DescribeOperation: describe,
}

// contests are the kinds of lock that histories are of: what they promise, and
// their exclusive and their shared way to acquire.
var contests = map[string]struct {
	model porcupine.Model
	ways  func(c *redoubt.Client, opts lock.Options) ([2]taker, error)
}{
	"mutex": {lockModel, func(c *redoubt.Client, opts lock.Options) ([2]taker, error) {
		m, err := lock.New(c, opts)
		return [2]taker{m, m}, err
	}},
	"fair": {lockModel, func(c *redoubt.Client, opts lock.Options) ([2]taker, error) {
		m, err := lock.New(c, opts)
		opts.Fair = true
		f, ferr := lock.New(c, opts)
		return [2]taker{m, f}, errors.Join(err, ferr)
	}},
	"rw": {rwModel, func(c *redoubt.Client, opts lock.Options) ([2]taker, error) {
		rw, err := lock.NewRWMutex(c, optionsOf[lock.RWMutexOptions](opts))
		return [2]taker{rw, readers{rw}}, err
	}},
	"semaphore": {semaphoreModel(historyLimit), func(c *redoubt.Client, opts lock.Options) ([2]taker, error) {
		s, err := lock.NewSemaphore(c, optionsOf[lock.SemaphoreOptions](opts))
		return [2]taker{limited{s, historyLimit}, limited{s, historyLimit}}, err
	}},
	"multi": {semaphoreModel(1), func(c *redoubt.Client, opts lock.Options) ([2]taker, error) {
		m, err := lock.NewMulti(c, optionsOf[lock.MultiOptions](opts))
		return [2]taker{suffixed{m}, suffixed{m}}, err
	}},
}

func byName(ops []porcupine.Operation) (parts [][]porcupine.Operation) {
	byName := map[string][]porcupine.Operation{}
	for _, op := range ops {
		name := op.Input.(event).name
		byName[name] = append(byName[name], op)
	}
	for _, part := range byName {
		parts = append(parts, part)
	}
	return parts
}

func describe(input, _ any) string {
	e := input.(event)
	return fmt.Sprintf("%s %d %.4s", e.what, e.fence%1e9, e.id)
}

// A history is what several processes did with locks of one kind, with times
// since its beginning.
type history struct {
	began time.Time

	mu    sync.Mutex
	ops   []porcupine.Operation
	known map[event]bool // the leases that somebody acquired, by name and fence
	lost  int            // calls without an answer
}

func (h *history) add(process int, e event, call, ret time.Time) {
	op := porcupine.Operation{ClientId: process, Input: e, Call: int64(call.Sub(h.began)), Return: math.MaxInt64}
	if !ret.IsZero() {
		op.Return = int64(ret.Sub(h.began))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e.what {
	case lost:
		h.lost++
		return
	case acquired:
		h.known[event{name: e.name, fence: e.fence}] = true
	}
	h.ops = append(h.ops, op)
}

// check returns how often each thing happened.
func (h *history) check(t *testing.T, what string, model porcupine.Model) map[string]int {
	t.Helper()
	counts := map[string]int{lost: h.lost}
	for i, op := range h.ops {
		e := op.Input.(event)
		if e.what == busy && !h.known[event{name: e.name, fence: e.fence}] {
			e.what = strange
			h.ops[i].Input = e
		}
		counts[e.what]++
	}
	result, info := porcupine.CheckOperationsVerbose(model, h.ops, time.Minute)
	if result != porcupine.Ok {
		file := filepath.Join(t.ArtifactDir(), what+".html")
		if err := porcupine.VisualizePath(model, info, file); err != nil {
			t.Error(err)
		}
		t.Errorf("the history of %s can't be: %s; with -artifacts it is kept in %s", what, result, file)
		h.log(t, model)
	}
	return counts
}

// log logs what happened to each name whose history can't be.
func (h *history) log(t *testing.T, model porcupine.Model) {
	t.Helper()
	for _, ops := range byName(h.ops) {
		if porcupine.CheckOperationsTimeout(model, ops, time.Minute) == porcupine.Ok {
			continue
		}
		slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		for _, op := range ops {
			t.Logf("%s: %d: %d to %d us: %s", op.Input.(event).name, op.ClientId, op.Call/1000, op.Return/1000, describe(op.Input, nil))
		}
	}
}

// doubles counts the leases of an exclusive lock that began, at their holders,
// before one of another holder was over there.
func (h *history) doubles() (n int) {
	type lease struct{ name, id string }
	ends := map[lease]int64{}
	var began []porcupine.Operation
	for _, op := range h.ops {
		switch e := op.Input.(event); e.what {
		case acquired:
			began = append(began, op)
		case ended:
			ends[lease{e.name, e.id}] = op.Call
		}
	}
	slices.SortFunc(began, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	until := map[string]int64{}
	for _, op := range began {
		e := op.Input.(event)
		end := ends[lease{e.name, e.id}]
		if op.Return >= end {
			continue // over before its holder knew of it
		}
		if op.Return < until[e.name] {
			n++
		}
		until[e.name] = max(until[e.name], end)
	}
	return n
}

// Histories that are wrong are refused: the models can tell.
func TestModelsFindFaults(t *testing.T) {
	for what, c := range map[string]struct {
		model porcupine.Model
		ok    bool
		steps []event
	}{
		"a second holder":             {lockModel, false, []event{{what: acquired, fence: 1}, {what: acquired, fence: 2}}},
		"one after the other":         {lockModel, true, []event{{what: acquired, fence: 1}, {what: ended, fence: 1}, {what: acquired, fence: 2}}},
		"a token that falls":          {lockModel, false, []event{{what: acquired, fence: 2}, {what: ended, fence: 2}, {what: acquired, fence: 1}}},
		"two holders, lost data":      {tokenModel, true, []event{{what: acquired, fence: 1}, {what: acquired, fence: 2}}},
		"the same token twice":        {tokenModel, false, []event{{what: acquired, fence: 1}, {what: acquired, fence: 1}}},
		"a stale write":               {registerModel, false, []event{{what: wrote, fence: 2}, {what: wrote, fence: 1}}},
		"a holder that is refused":    {registerModel, false, []event{{what: wrote, fence: 1}, {what: refused, fence: 1}}},
		"a write that was lost":       {registerModel, false, []event{{what: wrote, fence: 1}, {what: wrote, fence: 2}, {what: is, fence: 1}}},
		"a permit too many":           {semaphoreModel(1), false, []event{{what: acquired, id: "a", fence: 1}, {what: acquired, id: "b", fence: 2}}},
		"a writer beside a reader":    {rwModel, false, []event{{what: acquired, fence: 5, id: "a", shared: true}, {what: acquired, fence: 6, id: "b"}}},
		"two readers":                 {rwModel, true, []event{{what: acquired, fence: 5, id: "a", shared: true}, {what: acquired, fence: 5, id: "b", shared: true}}},
		"a reader's token that falls": {rwModel, false, []event{{what: acquired, fence: 5, id: "a", shared: true}, {what: acquired, fence: 4, id: "b", shared: true}}},
	} {
		h := &history{}
		for i, e := range c.steps {
			h.ops = append(h.ops, porcupine.Operation{Input: e, Call: int64(2 * i), Return: int64(2*i + 1)})
		}
		if got := porcupine.CheckOperations(c.model, h.ops); got != c.ok {
			t.Errorf("%s: accepted is %v", what, got)
		}
	}
}
