package torture

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A verdict is what the checks say of a round.
type verdict struct {
	faults    []string
	judged    int      // names whose histories were judged
	undecided []string // names for whose histories no order was found or excluded within decideWithin
}

// decideWithin is for one name. Most take milliseconds.
const decideWithin = 5 * time.Second

// slack is for clocks: workers read the machine's monotonic clock, servers its wall clock, which the
// time service may slew. So 1 ms, and a thousandth of a time.
const slack = int64(time.Millisecond)

// effects are the promises that faults take away.
type effects struct {
	lossy   bool // they may have taken what was acknowledged
	doubles bool // they sent requests twice

	stepped bool          // they stepped the server's clock
	forward time.Duration // all steps forward together
}

// judge checks a history.
func judge(h *history, by effects) *verdict {
	v := &verdict{}
	for primitive, model := range map[string]porcupine.Model{locks: lockModel, fair: lockModel, quorums: lockModel, semaphores: semaphoreModel} {
		if by.lossy || by.forward > 0 { // A step forward ends leases early.
			model = tokenModel
		}
		for name, events := range h.of(primitive) {
			v.linear(primitive, name, model, leases(events))
		}
	}
	for name, events := range h.of(queues) {
		v.queue(name, events, by)
	}
	if by.lossy { // There is nothing more that a failover may not take.
		return v
	}
	for name, events := range h.of(fair) {
		if events = trials(events); len(events) > 0 {
			v.linear(fair, name, fairModel, events)
		}
	}
	for name, events := range h.of(register) {
		v.linear(register, name, registerModel, events)
	}
	for name, events := range h.of(stocks) {
		if by.stepped { // Nobody knows when reservations run out.
			v.sold(name, events)
		} else {
			v.linear(stocks, name, stockModel, reservations(events))
		}
	}
	for name, events := range h.of(limits) {
		v.limit(name, events, by)
	}
	for name, events := range h.of(visits) {
		v.linear(visits, name, pageModel, events)
	}
	for name, events := range h.of(positions) {
		v.linear(positions, name, positionModel, changes(events))
	}
	v.caches(h.of(caches))
	return v
}

// sold checks that no more units are on sale and sold than there are.
func (v *verdict) sold(name string, events []event) {
	v.judged++
	for _, e := range events {
		if e.What == counted && e.Return != 0 && (e.N < 0 || e.M < 0 || e.N+e.M > stockUnits) {
			v.fault(stocks, name, "of %d units are %d on sale and %d sold: %v", stockUnits, e.N, e.M, events)
			return
		}
	}
}

func (v *verdict) fault(primitive, name, format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf("%s %s: ", primitive, name)+fmt.Sprintf(format, args...))
}

// linear finds an order of the events in which one server could have given all answers.
func (v *verdict) linear(primitive, name string, model porcupine.Model, events []event) {
	ops := make([]porcupine.Operation, len(events))
	for i, e := range events {
		ops[i] = operation(e)
	}
	v.judged++
	switch porcupine.CheckOperationsTimeout(model, ops, decideWithin) {
	case porcupine.Ok:
	case porcupine.Unknown:
		v.undecided = append(v.undecided, name)
	case porcupine.Illegal:
		var lines []string
		for _, e := range events {
			lines = append(lines, e.String())
		}
		v.fault(primitive, name, "its history can't be:\n%s", strings.Join(lines, "\n"))
	}
}

// leases prepares the events of a lock: it drops acquisitions of unknown outcome, ends the leases of
// workers that were killed, and tells sightings of leases that nobody knows.
func leases(events []event) (out []event) {
	known, over, until := map[int64]event{}, map[int64]bool{}, map[int64]int64{}
	for _, e := range events {
		switch {
		case e.What == acquired && e.Return != 0:
			known[e.N] = e
			until[e.N] = max(until[e.N], e.Until, e.Return)
		case e.What == extended && e.Return != 0:
			until[e.N] = max(until[e.N], e.Until)
		case e.What == ended:
			over[e.N] = true
		}
	}
	for _, e := range events {
		switch {
		case e.Return == 0 && e.What != ended, e.What == arrived:
			continue
		case e.What == held && e.N != 0 && known[e.N].N == 0:
			e.What = strange
		}
		out = append(out, e)
	}
	for token, e := range known {
		if !over[token] {
			out = append(out, event{Worker: e.Worker, Primitive: e.Primitive, Name: e.Name, What: ended, N: token, Call: until[token]})
		}
	}
	return out
}

// reservations numbers the reservations of an item and lets them run out: no earlier than their time
// after the call, and no later than that after the return.
func reservations(events []event) (out []event) {
	index := map[string]int64{}
	for _, e := range events {
		switch e.What {
		case reserved, committed, cancelled:
			if _, ok := index[e.ID]; !ok {
				index[e.ID] = int64(len(index))
			}
			e.M = index[e.ID]
		}
		out = append(out, e)
		if e.What == reserved {
			end := event{Worker: e.Worker, Primitive: e.Primitive, Name: e.Name, What: ranOut, ID: e.ID, M: e.M, Call: max(e.Call, e.Call+e.Until-slack-e.Until/1000)}
			if e.Return != 0 {
				end.Return = e.Return + e.Until + slack + e.Until/1000
			}
			out = append(out, end)
		}
	}
	return out
}

// The limit that all workers ask: limitRate tokens a second, limitBurst at once.
const limitRate, limitBurst = 20, 5

const tokenEvery = int64(time.Second) / limitRate

// limit checks that no time gave more tokens than the limit has, and that no refusal came while there
// were some.
func (v *verdict) limit(name string, events []event, by effects) {
	v.judged++
	var calls, returns []int64 // of the given tokens
	for _, e := range events {
		if e.Return != 0 && e.OK {
			calls, returns = append(calls, e.Call), append(returns, e.Return)
		}
	}
	if by.stepped {
		// All that is promised: the burst, and the tokens of the time that the clock has shown.
		if n := len(calls); n > 0 {
			time := slices.Max(returns) - calls[0] + int64(by.forward)
			if most := float64(limitBurst) + float64(time+slack+time/1000)/float64(tokenEvery); float64(n) > most {
				v.fault(limits, name, "it gave %d tokens while the clock showed %v", n, rounded(time))
			}
		}
		return
	}
	// Between a call and a return are all tokens whose call comes after the one and whose return comes
	// before the other. events are in the order of their calls.
	for i, from := range calls {
		later := slices.Sorted(slices.Values(returns[i:]))
		for n, to := range later {
			time := to - from
			if most := float64(limitBurst) + float64(time+slack+time/1000)/float64(tokenEvery); float64(n+1) > most {
				v.fault(limits, name, "it gave %d tokens within %v; it has %d at once and one each %v", n+1, rounded(time), limitBurst, rounded(tokenEvery))
				return
			}
		}
	}
	for _, refused := range events {
		if refused.Return != 0 && !refused.OK && !justified(refused, events, by) {
			v.fault(limits, name, "it refused while it had tokens: %v\n%v", refused, events)
			return
		}
	}
}

// justified reports whether the tokens before a refusal may have been gone: whether for some earlier
// moment more were taken since, or perhaps taken, than came back.
func justified(refused event, events []event, by effects) bool {
	for _, first := range events {
		if first.Call > refused.Return {
			break
		}
		began := first.Return // at the latest
		if began == 0 || began > refused.Call {
			began = refused.Call
		}
		taken := 0
		for _, e := range events {
			if (e.OK || e.Return == 0) && e.Call <= refused.Return && (e.Return == 0 || e.Return >= first.Call) {
				taken++
				if by.doubles {
					taken++
				}
			}
		}
		back := float64(refused.Call-began)/float64(tokenEvery) - 0.1
		if float64(taken)-back > limitBurst-1 {
			return true
		}
	}
	return false
}

func rounded(ns int64) time.Duration { return time.Duration(ns).Round(time.Microsecond) }

// queue checks that every acknowledged put came to a consumer, that no message came again after its
// acknowledged ack, and that no two had one at the same time.
func (v *verdict) queue(name string, events []event, by effects) {
	v.judged++
	byID := map[string][]event{}
	for _, e := range events {
		byID[e.ID] = append(byID[e.ID], e)
	}
	for id, all := range byID {
		var from, done event // the put, and the ack that counted
		var takes []event
		for _, e := range all {
			switch {
			case e.What == put:
				from = e
			case e.What == took:
				takes = append(takes, e)
			case e.What == acked && e.OK && e.Return != 0:
				// The library repeats a put whose reply was lost. A late copy adds the message again.
				if done.OK && from.M == 1 && !by.lossy && !by.doubles {
					v.fault(queues, name, "two acks of %s counted: %v", id, all)
				}
				done = e
			}
		}
		if from.What == "" {
			v.fault(queues, name, "%s was taken, and nobody put it: %v", id, all)
		}
		if by.lossy {
			continue
		}
		if from.Return != 0 && len(takes) == 0 {
			v.fault(queues, name, "%s was put and acknowledged, and came to nobody: %v", id, all)
		}
		for i, t := range takes {
			if done.OK && from.M == 1 && t.Call > done.Return && !by.doubles {
				v.fault(queues, name, "%s came again after its acknowledged ack: %v", id, all)
			}
			for _, other := range takes[i+1:] {
				if t.Until != 0 && by.forward == 0 && t.Return < other.Call && other.Return < t.Until-slack && !settled(t, other, all) {
					v.fault(queues, name, "two had %s at a time: %v", id, all)
				}
			}
		}
	}
}

// settled reports whether the consumer of one take may have ended it before another take returned.
func settled(t, other event, events []event) bool {
	return slices.ContainsFunc(events, func(e event) bool {
		return e.ID == t.ID && e.M == t.M && e.Worker == t.Worker && (e.What == acked || e.What == returned) && e.Call < other.Return
	})
}
