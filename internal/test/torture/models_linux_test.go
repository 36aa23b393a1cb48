package torture

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
)

// model makes a model of events whose step changes a state of type S. describe makes the report of a failure.
func model[S any](init S, step func(s S, e event) (bool, S)) porcupine.Model {
	return porcupine.Model{
		Init:              func() any { return init },
		Step:              func(state, input, _ any) (bool, any) { return anys(step(state.(S), input.(event))) },
		DescribeOperation: func(input, _ any) string { return input.(event).String() },
	}
}

func anys[S any](ok bool, s S) (bool, any) { return ok, s }

// operation is an event as porcupine takes it.
func operation(e event) porcupine.Operation {
	op := porcupine.Operation{ClientId: e.Worker, Input: e, Call: e.Call, Return: e.Return}
	if e.Return == 0 {
		op.Return = math.MaxInt64
	}
	return op
}

// A lease is the state of a lock: the token of the holder, 0 without one, and the largest so far.
type lease struct{ holder, token int64 }

// strange stands for a lease that somebody saw and whose own caller never learnt of it.
const strange = "strange"

// A lock has one holder at a time, and tokens that rise. An acquisition whose caller never learnt of it
// is no operation: it may end at any time, but holds the lock only while nobody else does.
var lockModel = model(lease{}, func(s lease, e event) (bool, lease) {
	switch e.What {
	case acquired:
		return s.holder == 0 && e.N > s.token, lease{e.N, e.N}
	case ended:
		return s.holder == e.N, lease{0, s.token}
	case strange:
		return s.holder == 0 && e.N >= s.token, lease{0, e.N}
	default: // extended, held
		return s.holder == e.N, s
	}
})

// semaphoreLimit is how many permits there are.
const semaphoreLimit = 2

// Permits are the state of a semaphore: the tokens of known permits, 0 for none, and the largest so far.
type permits struct {
	held  [semaphoreLimit]int64
	token int64
}

// A semaphore has at most semaphoreLimit permits taken, and tokens that rise.
var semaphoreModel = model(permits{}, func(s permits, e event) (bool, permits) {
	at := slices.Index(s.held[:], e.N)
	switch e.What {
	case acquired:
		free := slices.Index(s.held[:], 0)
		if free < 0 || e.N <= s.token {
			return false, s
		}
		s.held[free], s.token = e.N, e.N
		return true, s
	case ended:
		if at >= 0 {
			s.held[at] = 0
		}
		slices.Sort(s.held[:])
		return at >= 0, s
	case extended:
		return at >= 0, s
	default:
		return true, s
	}
})

// tokenModel is what is left of a lock when its server loses what it acknowledged.
var tokenModel = model(int64(0), func(token int64, e event) (bool, int64) {
	if e.What != acquired {
		return true, token
	}
	return e.N > token, e.N
})

// A fenced is the state of a register: the largest token, and the value.
type fenced struct{ token, value int64 }

// registerModel lets no write through whose token is smaller than the largest so far.
var registerModel = model(fenced{}, func(s fenced, e event) (bool, fenced) {
	if e.What == is {
		return e.Answer == s.value, s
	}
	if e.N < s.token {
		return e.Return == 0 || !e.OK && e.Answer == s.token, s
	}
	return e.Return == 0 || e.OK, fenced{e.N, e.M}
})

// maxIDs is how many reservations an item has at most in a history.
const maxIDs = 64

// ranOut is no call: the time of a reservation is over, if it holds anything then.
const ranOut = "ran out"

// An item is the state of a stock.
type item struct {
	total, available, sold int64
	n                      [maxIDs]int8
	status                 [maxIDs]wire.Status
	void                   [maxIDs]bool // cancelled before it reserved anything
}

// stockModel has units that are available, held or sold, and reservations that end once. The events'
// M is the index of the reservation. The effect of a call depends on the state alone, so a call with an
// unknown answer has the same effect, at an unknown time.
var stockModel = model(item{}, func(s item, e event) (bool, item) {
	if e.What == counted {
		return e.Return == 0 || e.N == s.available && e.M == s.sold, s
	}
	answer := s.step(e)
	return e.Return == 0 || e.What == ranOut || e.Answer == answer, s
})

func (s *item) step(e event) (answer int64) {
	id := e.M
	switch e.What {
	case set:
		s.available += e.N - s.total
		s.total = e.N
		return s.available
	case reserved:
		switch {
		case s.void[id]:
			return int64(wire.Cancelled)
		case s.status[id] != wire.None:
			return int64(s.status[id])
		case s.available < e.N:
			return int64(wire.None)
		}
		s.available -= e.N
		s.n[id], s.status[id] = int8(e.N), wire.Reserved
	case committed:
		if s.status[id] == wire.Reserved {
			s.sold += int64(s.n[id])
			s.status[id] = wire.Committed
		}
	case cancelled:
		if s.status[id] == wire.None {
			s.void[id] = true
		}
		s.back(id, wire.Cancelled)
	case ranOut:
		s.back(id, wire.Expired)
	default:
		panic(fmt.Sprint("no call of a stock: ", e.What))
	}
	return int64(s.status[id])
}

// back puts the units of a reservation back on sale.
func (s *item) back(id int64, as wire.Status) {
	if s.status[id] == wire.Reserved {
		s.available += int64(s.n[id])
		s.status[id] = as
	}
}
