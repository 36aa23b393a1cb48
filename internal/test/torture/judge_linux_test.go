package torture

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Histories that are wrong are refused, and right ones are not.
func TestJudge(t *testing.T) {
	ms := int64(time.Millisecond)
	for what, c := range map[string]struct {
		fault  string // in words of the fault; empty if it is right
		events []event
	}{
		"one holder after the other":      {"", []event{{What: acquired, N: 1}, {What: ended, N: 1}, {What: acquired, N: 2}}},
		"two holders":                     {"can't be", []event{{What: acquired, N: 1, Until: 100 * ms}, {What: acquired, N: 2, Until: 100 * ms}}},
		"a holder that was killed":        {"", []event{{What: acquired, N: 1, Until: 2 * ms}, {What: acquired, N: 2}}},
		"a token that falls":              {"can't be", []event{{What: acquired, N: 2}, {What: ended, N: 2}, {What: acquired, N: 1}}},
		"a lease that was lost":           {"can't be", []event{{What: acquired, N: 1, Until: 100 * ms}, {What: held, N: 0}, {What: ended, N: 1}}},
		"a lease that nobody knows":       {"", []event{{What: held, N: 1}, {What: acquired, N: 2}}},
		"that comes between":              {"can't be", []event{{What: acquired, N: 1, Until: 100 * ms}, {What: held, N: 2}, {What: ended, N: 1}}},
		"a stale write":                   {"can't be", []event{{What: wrote, N: 2, OK: true}, {What: wrote, N: 1, OK: true}}},
		"a write that is lost":            {"can't be", []event{{What: wrote, N: 1, M: 7, OK: true}, {What: is, Answer: 0}}},
		"a write that may be lost":        {"", []event{{What: wrote, N: 1, M: 7, OK: true, Return: -1}, {What: is, Answer: 0}}},
		"a write that was refused":        {"", []event{{What: wrote, N: 2, M: 7, OK: true}, {What: wrote, N: 1, M: 8, Answer: 2}, {What: is, Answer: 7}}},
		"sold too often":                  {"can't be", []event{{What: set, N: 1, Answer: 1}, {What: reserved, ID: "a", N: 1, Answer: 1, Until: 1000 * ms}, {What: reserved, ID: "b", N: 1, Answer: 1, Until: 1000 * ms}}},
		"a unit that is lost":             {"can't be", []event{{What: set, N: 2, Answer: 2}, {What: reserved, ID: "a", N: 1, Answer: 1, Until: 1000 * ms}, {What: cancelled, ID: "a", Answer: -2}, {What: counted, N: 1}}},
		"one that ran out":                {"", []event{{What: set, N: 2, Answer: 2}, {What: reserved, ID: "a", N: 1, Answer: 1, Until: ms}, {What: committed, ID: "a", Answer: -3}, {What: counted, N: 2}}},
		"a burst":                         {"", slices.Repeat([]event{{What: asked, OK: true}}, limitBurst)},
		"more than a burst":               {"it has 5 at once", slices.Repeat([]event{{What: asked, OK: true}}, limitBurst+2)},
		"a refusal after a burst":         {"", append(slices.Repeat([]event{{What: asked, OK: true}}, limitBurst), event{What: asked})},
		"a refusal without":               {"while it had tokens", append(slices.Repeat([]event{{What: asked, OK: true}}, limitBurst-2), event{What: asked})},
		"a message":                       {"", []event{{What: put, ID: "a", M: 1}, {What: took, ID: "a"}, {What: acked, ID: "a", OK: true}}},
		"a message that is lost":          {"came to nobody", []event{{What: put, ID: "a", M: 1}}},
		"one that may be":                 {"", []event{{What: put, ID: "a", M: 1, Return: -1}}},
		"a message that comes again":      {"came again", []event{{What: put, ID: "a", M: 1}, {What: took, ID: "a"}, {What: acked, ID: "a", OK: true}, {What: took, ID: "a"}}},
		"that was put twice perhaps":      {"", []event{{What: put, ID: "a"}, {What: took, ID: "a"}, {What: acked, ID: "a", OK: true}, {What: took, ID: "a"}}},
		"a message of two":                {"two had", []event{{What: put, ID: "a", M: 1}, {What: took, ID: "a", M: 1, Until: 100 * ms}, {What: took, ID: "a", M: 2}}},
		"one that was handed back":        {"", []event{{What: put, ID: "a", M: 1}, {What: took, ID: "a", M: 1, Until: 100 * ms}, {What: returned, ID: "a", M: 1}, {What: took, ID: "a", M: 2}}},
		"waiters out of their order":      {"before the first", []event{{What: queued, N: 2, M: 1}}},
		"a stale value":                   {"was invalidated", []event{{What: invalidated, N: 2}, {What: got, N: 1}}},
		"a value whose Invalidate failed": {"", []event{{What: invalidated, N: 2, Return: -1}, {What: got, N: 1}}},
		"a message of nobody":             {"nobody put it", []event{{What: took, ID: "a"}}},
	} {
		h := &history{events: map[[2]int]event{}}
		for i, e := range c.events {
			e.Primitive = map[string]string{acquired: locks, ended: locks, held: locks, wrote: register, is: register,
				set: stocks, reserved: stocks, committed: stocks, cancelled: stocks, counted: stocks, asked: limits,
				queued: fair, invalidated: caches, got: caches}[e.What]
			if e.Primitive == "" {
				e.Primitive = queues
			}
			e.Name, e.Seq, e.Call = "a name", i, int64(i+1)*5*ms
			if e.What == asked {
				e.Call = int64(i+1) * ms
			}
			switch {
			case e.Return < 0: // unknown
				e.Return = 0
			default:
				e.Return = e.Call + ms/2
			}
			h.events[[2]int{0, i}] = e
		}
		faults := strings.Join(judge(h, effects{}).faults, "\n")
		if (faults == "") != (c.fault == "") || !strings.Contains(faults, c.fault) {
			t.Errorf("%s: the faults are %q, want %q", what, faults, c.fault)
		}
		if lossy := judge(h, effects{lossy: true}).faults; len(lossy) > 0 && !slices.Contains([]string{"a token that falls", "a message of nobody"}, what) {
			t.Errorf("%s, where faults may take what was acknowledged: the faults are %q", what, lossy)
		}
	}
}

// The same seed makes the same schedule, and no two faults strike one target at a time.
func TestSchedule(t *testing.T) {
	s := &site{topology: topologies[0]}
	for seed := range uint64(100) {
		all := newSchedule(seed, s)
		if again := newSchedule(seed, s); again.String() != all.String() {
			t.Fatalf("seed %d makes\n%v\nand\n%v", seed, all, again)
		}
		for i, k := range all {
			for _, other := range all[i+1:] {
				if other.of == k.of && other.target == k.target && other.at < k.at+k.length {
					t.Errorf("seed %d: %v and %v overlap", seed, k, other)
				}
			}
		}
		if some, err := all.pick(all[1:3].indices()); err != nil || some.String() != all[1:3].String() {
			t.Errorf("seed %d: %v: picked\n%v\nwant\n%v", seed, err, some, all[1:3])
		}
	}
}

// A schedule that fails by two of its strikes shrinks to them.
func TestSmallest(t *testing.T) {
	all := newSchedule(1, &site{topology: topologies[0]})
	runs := 0
	smallest := all.smallest(1000, func(some schedule) bool {
		runs++
		text := "," + some.indices() + ","
		return strings.Contains(text, ",3,") && strings.Contains(text, ",11,")
	})
	if smallest.indices() != "3,11" || runs > 60 {
		t.Errorf("%d runs made %s of %s", runs, smallest.indices(), all.indices())
	}
}
