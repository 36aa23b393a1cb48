package torture

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/geo"
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
		"a stale value":                   {"was invalidated", []event{{What: invalidated, N: 2}, {What: got, N: 1}}},
		"a value whose Invalidate failed": {"", []event{{What: invalidated, N: 2, Return: -1}, {What: got, N: 1}}},
		"a value of the local level":      {"", []event{{What: invalidated, N: 2}, {What: got, N: 1, M: 1, Until: 5 * ms}}},
		"that was heard to be invalid":    {"was invalidated", []event{{What: invalidated, N: 2}, {What: got, N: 1, M: 1, Until: 6 * ms}}},
		"that it invalidated itself":      {"was invalidated", []event{{What: invalidated, N: 2, M: 1}, {What: got, N: 1, M: 1}}},
		"that is too old":                 {"was invalidated", append([]event{{What: invalidated, N: 2}}, slices.Repeat([]event{{What: got, N: 1, M: 1}}, int((localTTL+callsTake)/(5*time.Millisecond)+1))...)},
		"that a worker at rest has":       {"", []event{{What: invalidated, N: 2}, {What: got, N: 1, M: 1, Call: int64(localTTL + callsTake + time.Second)}}},
		"a lock of two majorities":        {"can't be", []event{{Primitive: quorums, What: acquired, N: 1, Until: 100 * ms}, {Primitive: quorums, What: acquired, N: 2}}},
		"a lock of one after the other":   {"", []event{{Primitive: quorums, What: acquired, N: 1}, {Primitive: quorums, What: ended, N: 1}, {Primitive: quorums, What: acquired, N: 2}}},
		"visitors":                        {"", []event{{What: visited, N: 3, M: 1}, {What: visited, N: 3, M: 1}, {What: visited, N: 4}, {What: tallied, N: 2, M: -1}, {What: tallied, N: -1, M: 2}}},
		"a visitor that is lost":          {"can't be", []event{{What: visited, N: 3, M: 1}, {What: visited, N: 4}, {What: tallied, N: 1, M: -1}}},
		"a visitor that may be lost":      {"", []event{{What: visited, N: 3, M: 1, Return: -1}, {What: tallied, N: 0, M: -1}}},
		"a visitor of nobody":             {"can't be", []event{{What: visited, N: 3, M: 1}, {What: tallied, N: 2, M: -1}}},
		"a visitor who is gone again":     {"can't be", []event{{What: visited, N: 3, M: 1, Return: -1}, {What: tallied, N: 1, M: -1}, {What: tallied, N: 0, M: -1}}},
		"a view that counts twice":        {"can't be", []event{{What: visited, N: 3, M: 1}, {What: tallied, N: -1, M: 2}}},
		"positions":                       {"", []event{{What: placed, N: 1, OK: true}, {What: moved, N: 4, OK: true}, {What: found, N: 4, M: 3}, {What: found, M: 1}, {What: removed, OK: true}, {What: found}, {What: moved, N: 1}}},
		"a member that is lost":           {"can't be", []event{{What: placed, N: 1, OK: true}, {What: found}}},
		"a member that may be lost":       {"", []event{{What: placed, N: 1, Return: -1}, {What: found}, {What: found, N: 1}}},
		"a member that was removed":       {"can't be", []event{{What: placed, N: 1, OK: true}, {What: removed, OK: true}, {What: found, N: 1}}},
		"a member at its old place":       {"can't be", []event{{What: placed, N: 1, OK: true}, {What: moved, N: 2, OK: true}, {What: found, N: 1}}},
		"a member that is found twice":    {"can't be", []event{{What: placed, N: 1, OK: true}, {What: found, N: nowhere}}},
		"a member outside the area":       {"can't be", []event{{What: placed, N: 1, OK: true}, {What: found, N: 1, M: 3}}},
		"a member that is new twice":      {"can't be", []event{{What: placed, N: 1, OK: true}, {What: placed, N: 2, OK: true}}},
		"waiters in their order":          {"", inTrial(first, event{What: arrived, M: 1}, event{What: arrived, M: 2}, over, event{What: acquired, N: 2, M: 1}, event{What: ended, N: 2}, event{What: acquired, N: 3, M: 2})},
		"waiters out of their order":      {"can't be", inTrial(first, event{What: arrived, M: 1}, event{What: arrived, M: 2}, over, event{What: acquired, N: 2, M: 2}, event{What: ended, N: 2}, event{What: acquired, N: 3, M: 1})},
		"waiters who came at one time":    {"", inTrial(first, event{What: arrived, M: 1, Return: 20 * ms}, event{What: arrived, M: 2}, over, event{What: acquired, N: 2, M: 2}, event{What: ended, N: 2}, event{What: acquired, N: 3, M: 1})},
		"one who gets in between":         {"can't be", inTrial(first, event{What: arrived, M: 1}, over, event{What: acquired, N: 2}, event{What: ended, N: 2}, event{What: acquired, N: 3, M: 1})},
		"one who comes behind them":       {"", inTrial(first, event{What: arrived, M: 1}, over, event{What: acquired, N: 2, M: 1}, event{What: ended, N: 2}, event{What: acquired, N: 3})},
		"a trial whose order is unknown":  {"", inTrial(first, over, event{What: acquired, N: 2, M: 2}, event{What: ended, N: 2}, event{What: acquired, N: 3, M: 1})},
		"a message of nobody":             {"nobody put it", []event{{What: took, ID: "a"}}},
	} {
		h := &history{events: map[[2]int]event{}}
		for i, e := range c.events {
			e.Primitive = cmp.Or(e.Primitive, map[string]string{acquired: locks, ended: locks, held: locks, wrote: register, is: register,
				set: stocks, reserved: stocks, committed: stocks, cancelled: stocks, counted: stocks, asked: limits,
				visited: visits, tallied: visits, placed: positions, moved: positions, removed: positions, found: positions,
				invalidated: caches, got: caches}[e.What], queues)
			e.Name, e.Seq, e.Call = "a name", i, cmp.Or(e.Call, int64(i+1)*5*ms)
			if e.What == asked {
				e.Call = int64(i+1) * ms
			}
			switch {
			case e.Return < 0: // unknown
				e.Return = 0
			default:
				e.Return = cmp.Or(e.Return, e.Call+ms/2)
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

// The beginning of a trial of a fair lock: one has it, and releases it once others wait.
var first, over = event{What: acquired, N: 1}, event{What: ended, N: 1}

// inTrial puts events into a trial of a fair lock.
func inTrial(events ...event) []event {
	for i := range events {
		events[i].Primitive, events[i].ID = fair, "1"
	}
	return events
}

// Each area has the places that it should, and none is near its edge: an index keeps positions to half a metre only.
func TestAreas(t *testing.T) {
	for i, want := range [][]int64{{1, 2, 3, 4, 5, 6}, {1, 2}, {3}, {4, 5}, {1, 4, 5}} {
		var got []int64
		for place := int64(1); place < int64(len(spots)); place++ {
			if areas[i].has(place) {
				got = append(got, place)
			}
			if d := areas[i].from.To(spots[place]) - areas[i].radius; d > -geo.Kilometre && d < geo.Kilometre {
				t.Errorf("place %d is at the edge of area %d", place, i)
			}
			if n := placeOf(spots[place]); n != place {
				t.Errorf("place %d is taken for %d", place, n)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("area %d has the places %v, want %v", i, got, want)
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
