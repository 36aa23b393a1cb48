package torture

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A kind is a fault.
type kind struct {
	name  string
	of    string        // what it strikes, as targets counts them
	lasts time.Duration // at most; 0: it strikes and is over
	ends  bool          // the process of serve, which -steady spares
	effects
	// begin strikes the target, and returns what ends it, nil if nothing has to.
	begin func(s *site, target int, length time.Duration) (end func())
}

// Targets of faults.
const (
	aWorker  = "worker"
	aServer  = "server" // behind serve
	theServe = "serve"
	aLink    = "link"        // of a worker to serve
	aDirect  = "direct link" // to a server
	theGroup = "group"       // all servers: nothing else strikes one meanwhile
)

func (s *site) targets(of string) int {
	return map[string]int{aWorker: len(doors), aServer: len(s.servers), theServe: 1, theGroup: max(1, len(s.servers)), aLink: len(doors), aDirect: len(s.direct)}[of]
}

// A strike is a fault at its time.
type strike struct {
	*kind
	index  int // in the schedule that the seed makes
	at     time.Duration
	length time.Duration
	target int
}

func (k strike) String() string {
	text := fmt.Sprintf("#%d at %v: %s, %s %d", k.index, k.at.Round(time.Millisecond), k.name, k.of, k.target)
	if k.of == aWorker || k.of == aLink {
		text += " (" + doors[k.target] + ")"
	}
	if k.length > 0 {
		text += ", for " + k.length.Round(time.Millisecond).String()
	}
	return text
}

// A schedule is what strikes in a round, in the order of its times.
type schedule []strike

const (
	roundLength = 6 * time.Second // of faults
	strikeEvery = 250 * time.Millisecond
)

// random returns choices for a part of a round.
func random(seed uint64, part string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(part)) // A Hash never fails.
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// newSchedule draws a schedule. No two faults strike one target at a time, but all others may.
func newSchedule(seed uint64, s *site) (all schedule) {
	rng := random(seed, "schedule of "+s.name)
	free := map[string]time.Duration{}
	for at := time.Duration(0); at < roundLength; at += time.Duration(rng.Int64N(int64(2 * strikeEvery))) {
		k := s.kinds[rng.IntN(len(s.kinds))]
		n := strike{kind: k, at: at, target: rng.IntN(max(1, s.targets(k.of)))}
		if k.lasts > 0 {
			n.length = time.Duration(1 + rng.Int64N(int64(k.lasts))).Round(time.Millisecond)
		}
		needs := s.needs(n)
		isFree := func(target string) bool { return free[target] <= at }
		if *steady && k.ends || len(needs) == 0 || slices.ContainsFunc(needs, func(target string) bool { return !isFree(target) }) || at+n.length >= roundLength {
			continue
		}
		for _, target := range needs {
			free[target] = at + n.length + strikeEvery
		}
		n.index = len(all)
		all = append(all, n)
	}
	return all
}

// needs returns what a strike has for itself while it lasts.
func (s *site) needs(k strike) (targets []string) {
	if k.of == theGroup {
		targets = append(targets, theGroup)
		for i := range s.servers {
			targets = append(targets, fmt.Sprint(aServer, i))
		}
	} else if s.targets(k.of) > 0 {
		targets = append(targets, fmt.Sprint(k.of, k.target))
	}
	return targets
}

// pick returns the strikes with the indices of a text like "0,3,4"; all of them if it is empty.
func (all schedule) pick(text string) (schedule, error) {
	if text == "" {
		return all, nil
	}
	var some schedule
	for word := range strings.SplitSeq(text, ",") {
		i, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || i < 0 || i >= len(all) {
			return nil, fmt.Errorf("no strike is %q; want numbers from 0 to %d with commas between", word, len(all)-1)
		}
		some = append(some, all[i])
	}
	return some, nil
}

func (all schedule) String() string {
	var lines []string
	for _, k := range all {
		lines = append(lines, "  "+k.String())
	}
	return strings.Join(lines, "\n")
}

// indices returns what [schedule.pick] takes.
func (all schedule) indices() string {
	var words []string
	for _, k := range all {
		words = append(words, strconv.Itoa(k.index))
	}
	return strings.Join(words, ",")
}

// effects returns what the strikes together do to the promises.
func (all schedule) effects() (by effects) {
	for _, k := range all {
		by.lossy = by.lossy || k.lossy
		by.doubles = by.doubles || k.doubles
		by.stepped = by.stepped || k.stepped
		by.forward += k.forward
	}
	return by
}

// run strikes. It returns when all faults are over.
func (all schedule) run(s *site) {
	type action struct {
		at time.Duration
		do func()
	}
	var timeline []action
	for _, k := range all {
		var end func()
		timeline = append(timeline, action{k.at, func() { end = k.begin(s, k.target, k.length) }},
			action{k.at + k.length, func() {
				if end != nil {
					end()
				}
			}})
	}
	timeline = append(timeline, action{at: roundLength, do: func() {}})
	slices.SortStableFunc(timeline, func(a, b action) int { return int(a.at - b.at) })
	began := time.Now()
	for _, a := range timeline {
		rest(time.Until(began.Add(a.at)))
		a.do()
	}
}

// smallest leaves out parts of a schedule, as long as fails says that the rest still fails, at most
// tries times. It returns the smallest one that failed.
func (all schedule) smallest(tries int, fails func(schedule) bool) schedule {
	for part := (len(all) + 1) / 2; part > 0 && tries > 0 && len(all) > 0; {
		smaller := false
		for from := 0; from < len(all) && tries > 0; from += part {
			rest := slices.Delete(slices.Clone(all), from, min(from+part, len(all)))
			tries--
			if fails(rest) {
				all, smaller = rest, true
				break
			}
		}
		if !smaller {
			if part == 1 {
				break
			}
			part = (part + 1) / 2
		}
		part = min(part, max(1, len(all)))
	}
	return all
}
