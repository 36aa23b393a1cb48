package torture

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/faults"
	"github.com/redoubt-go/redoubt/internal/test/programs"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

var (
	duration = flag.Duration("duration", 0, "how long the run lasts; 0 is the short form: one round on each topology")
	seedFlag = flag.Uint64("seed", 0, "seed of the first round; 0 draws one")
	only     = flag.String("only", ".", "regular expression of the topologies to run")
	strikes  = flag.String("strikes", "", "numbers of the strikes to keep of the schedule, like 0,3; all if empty")
	full     = flag.Bool("full", false, "run all topologies, and run a round that failed again with parts of its schedule left out")
	steady   = flag.Bool("steady", false, "spare the process of serve, empty it between rounds, and fail if its memory grows")
	raced    = flag.Bool("raced", false, "build redoubt with the race detector")
)

func TestMain(m *testing.M) {
	faults.Main()
	if text := os.Getenv(ordersEnv); text != "" {
		redis.SetLogger(silent{})
		if err := work(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// A redis-server inherits it. By itself it would end when a file can't grow.
	signal.Ignore(syscall.SIGXFSZ)
	os.Exit(m.Run())
}

// silent drops the log of go-redis: that servers go away is what is tested.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// TestTorture runs a round on each topology, and with -duration goes on until that has passed.
//
// All that the primitives promise holds through kills, pauses, restarts and faults of the network, as long as
// the servers keep what they acknowledged; and all work again when the faults are over.
func TestTorture(t *testing.T) {
	slow.Test(t, "it starts several deployments and strikes them for seconds")
	first := *seedFlag
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	chosen, err := regexp.Compile(*only)
	must(t, err)
	var args []string
	if *raced {
		args = append(args, "-race")
	}
	binary := programs.Redoubt(t, args...)
	sites := map[string]*site{}
	memory := map[string][]int64{}
	var total sum
	began := time.Now()
	seeds := rand.New(rand.NewPCG(first, 0)) //nolint:gosec // nothing secret
	for seed := first; ; seed = seeds.Uint64() {
		ran := false
		for _, top := range topologies {
			if !chosen.MatchString(top.name) || top.long && !*full {
				continue
			}
			if ran && *duration > 0 && time.Since(began) > *duration {
				break
			}
			ran = true
			s := sites[top.name]
			if s == nil {
				s = top.build(t, binary)
				sites[top.name] = s
			}
			all, err := newSchedule(seed, s).pick(*strikes)
			must(t, err)
			r := s.round(seed, all)
			total.add(r)
			memory[top.name] = append(memory[top.name], r.memory)
			if *steady {
				s.empty()
			}
			say("%8v  %-14s seed %-20d %v", time.Since(began).Round(time.Second), top.name, seed, r)
			if len(r.faults) > 0 {
				report(t, top, binary, seed, all, r)
				delete(sites, top.name) // Its state now is no beginning of a round.
			}
		}
		if !ran {
			t.Fatalf("no topology matches %q", *only)
		}
		if time.Since(began) > *duration {
			break
		}
	}
	for _, top := range topologies {
		if m := memory[top.name]; len(m) > 1 {
			say("%s: serve had %d MiB after the first round, %d MiB at most, and %d MiB after the last of %d", top.name, m[0]>>20, slices.Max(m)>>20, m[len(m)-1]>>20, len(m))
		}
	}
	if *steady {
		for name, m := range memory {
			if early, late, grows := growth(m); grows {
				t.Errorf("%s: serve's memory grows: %d MiB in the second quarter of the rounds, %d MiB in the last", name, early>>20, late>>20)
			}
		}
	}
	say("%v: %v", time.Since(began).Round(time.Second), total)
	if len(total.undecided) == total.judged {
		t.Errorf("none of %d histories could be judged", total.judged)
	}
}

// growth compares the medians of a process' memory in the second quarter of the rounds and in the last. The first
// quarter fills caches and pools.
func growth(m []int64) (early, late int64, grows bool) {
	if len(m) < 8 {
		return 0, 0, false
	}
	median := func(some []int64) int64 { return slices.Sorted(slices.Values(some))[len(some)/2] }
	n := len(m) / 4
	early, late = median(m[n:2*n]), median(m[len(m)-n:])
	return early, late, late > early+early/10+2<<20
}

// TestGrowth holds growth to histories of memory.
func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		mib   []int64
		grows bool
	}{
		{[]int64{30, 36, 40, 41, 40, 42, 41, 40}, false},
		{[]int64{30, 36, 40, 43, 46, 49, 52, 55}, true},
		{[]int64{30, 36, 40}, false},
	} {
		var m []int64
		for _, n := range c.mib {
			m = append(m, n<<20)
		}
		if _, _, grows := growth(m); grows != c.grows {
			t.Errorf("%v MiB: grows is %t", c.mib, grows)
		}
	}
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// A result is what came of a round.
type result struct {
	calls, answered int
	strikes         int
	judged          int
	undecided       []string
	memory          int64 // of serve, at the end
	restarts        int   // of serve
	faults          []string
}

func (r result) String() string {
	text := fmt.Sprintf("%d calls, %d answered; %d strikes; %d histories judged", r.calls, r.answered, r.strikes, r.judged-len(r.undecided))
	if len(r.undecided) > 0 {
		text += fmt.Sprintf(", %d not decided: %v", len(r.undecided), r.undecided)
	}
	text += fmt.Sprintf("; serve %d MiB, started %d times", r.memory>>20, r.restarts)
	if len(r.faults) > 0 {
		return text + fmt.Sprintf("; FAILED: %d faults", len(r.faults))
	}
	return text + "; holds"
}

// A sum is that of several rounds.
type sum struct {
	rounds int
	result
}

func (s *sum) add(r result) {
	s.rounds++
	s.calls, s.answered, s.strikes = s.calls+r.calls, s.answered+r.answered, s.strikes+r.strikes
	s.judged, s.undecided = s.judged+r.judged, append(s.undecided, r.undecided...)
	s.faults = append(s.faults, r.faults...)
}

func (s sum) String() string {
	return fmt.Sprintf("%d rounds, %d calls, %d answered; %d strikes; %d histories judged, %d not decided; %d faults",
		s.rounds, s.calls, s.answered, s.strikes, s.judged-len(s.undecided), len(s.undecided), len(s.faults))
}

// round runs workers on a site while a schedule strikes, and judges what they saw.
func (s *site) round(seed uint64, all schedule) result {
	restarts := s.serve.starts
	s.rounds++
	s.crew = newCrew(s, seed, fmt.Sprint("r", s.rounds))
	defer s.crew.dismiss()
	all.run(s)
	s.serve.await()
	s.crew.finish()
	if len(s.crew.faults) == 0 {
		s.crew.drain()
		if !all.effects().lossy {
			s.crew.verify()
		}
	}
	v := judge(s.crew.history, all.effects())
	r := result{strikes: len(all), judged: v.judged, undecided: v.undecided, memory: s.serve.memory(), restarts: s.serve.starts - restarts}
	r.faults = slices.Concat(s.crew.faults, v.faults, s.serve.faults())
	r.calls, r.answered = s.crew.history.count()
	if r.answered == 0 {
		r.faults = append(r.faults, "no call was answered")
	}
	return r
}

// empty deletes the keys of the rounds before, which an engine has in its memory.
func (s *site) empty() {
	if len(s.servers) == 0 {
		must(s.t, s.serve.command("FLUSHALL"))
	}
}

// shrinkRuns bounds how often a round is run again to find a smaller schedule.
const shrinkRuns = 10

// report tells how a round failed, and by how small a schedule it fails.
func report(t *testing.T, top topology, binary string, seed uint64, all schedule, r result) {
	t.Helper()
	t.Errorf("%s fails with seed %d", top.name, seed)
	say("%s\nthe schedule:\n%v\nrepeat it by: make torture SEED=%d ONLY='^%s$'", strings.Join(r.faults, "\n"), all, seed, top.name)
	if !*full {
		return
	}
	smallest := all.smallest(shrinkRuns, func(some schedule) (fails bool) {
		t.Run("shrink", func(t *testing.T) {
			again := top.build(t, binary).round(seed, some)
			say("  with %d of %d strikes: %v", len(some), len(all), again)
			fails = len(again.faults) > 0
		})
		return fails
	})
	if len(smallest) == len(all) {
		say("%s: with fewer strikes it did not fail again in %d runs", top.name, shrinkRuns)
		return
	}
	say("%s fails with these strikes only:\n%v\nrepeat it by: make torture SEED=%d ONLY='^%s$' STRIKES=%s",
		top.name, smallest, seed, top.name, smallest.indices())
}
