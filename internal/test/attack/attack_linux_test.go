package attack

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/programs"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the attacks; 0 draws one")
	duration = flag.Duration("duration", 0, "how long each attack lasts on each topology; 0 is the short form: a part of a second, on one topology")
	only     = flag.String("only", ".", "regular expression of the attacks to run, like `globs|pool`")
	raced    = flag.Bool("raced", false, "build the server with the race detector; memory is then not judged")
	record   = flag.Bool("record", false, "keep the numbers of this run for docs/security.md")
)

// An attack is one thing that a hostile client, script or disk tries.
type attack struct {
	name    string
	tries   string     // in words, for docs/security.md
	holds   string     // what is promised beyond what the package comment says
	on      []topology // the short form takes the first
	memory  int64      // MiB: budget of the process' peak
	wait    time.Duration
	serve   []string // more arguments of redoubt serve
	back    []string // more arguments of the servers behind it
	alone   bool     // no victims: the attack kills and restarts the process, and judges by itself
	long    bool     // left out of the short form, for the reason in a comment
	attempt func(ctx context.Context, rng *rand.Rand, on *round)
}

const (
	shortRound = 400 * time.Millisecond
	longRound  = 5 * time.Second
)

// A waitLimit is how long a victim may wait where an attack says nothing else. It
// is far above what is seen, because other work may keep the machine busy.
const waitLimit = 10 * time.Second

// built is the redoubt under attack.
var built string

// TestAttacks runs every attack. On two cores the short form takes 40 s.
func TestAttacks(t *testing.T) {
	slow.Test(t, "it attacks the built server in some forty ways, with fresh processes for each")
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: repeat it by make attack SEED=%d", seed, seed)
	chosen, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	if *raced {
		args = append(args, "-race")
	}
	built = programs.Redoubt(t, args...)

	type run struct {
		attack
		topology
	}
	var runs []run
	for _, a := range attacks {
		if *duration == 0 && a.long {
			continue
		}
		for i, on := range a.on {
			if (i == 0 || *duration != 0) && chosen.MatchString(a.name+"/"+string(on)) {
				runs = append(runs, run{a, on})
			}
		}
	}
	if len(runs) == 0 {
		t.Fatalf("no attack matches %q; there are %q", *only, names())
	}
	progress := newProgress(len(runs))
	var results []result
	for _, r := range runs {
		t.Run(r.name+"/"+string(r.topology), func(t *testing.T) {
			progress.begins(t.Name())
			res := repeat(t, r.attack, r.topology, seed)
			results = append(results, res)
			progress.ended(res)
		})
	}
	progress.done()
	if *duration != 0 {
		printTable(os.Stdout, seed, results)
	}
	if *record {
		keep(t, seed, results)
	}
}

// repeat runs rounds of one attack until its time is over, and adds them up.
func repeat(t *testing.T, a attack, on topology, seed uint64) result {
	length, total := shortRound, *duration
	if total != 0 {
		length = min(total, longRound)
	}
	sum := result{Attack: a.name, On: on, Held: true}
	for began := time.Now(); sum.Rounds == 0 || time.Since(began) < total; sum.Rounds++ {
		h := fnv.New64a()
		_, _ = fmt.Fprint(h, a.name, on, sum.Rounds) // A Hash never fails.
		r := newRound(t, a, on, rand.New(rand.NewPCG(seed, h.Sum64())))
		r.run(length, endings[(int(h.Sum64()>>32)+sum.Rounds)%len(endings)])
		sum.add(r)
		if r.failed() {
			sum.Held, sum.Fault = false, r.faults[0]
			t.Errorf("%s\nrepeat it by: make attack SEED=%d DURATION=%v ONLY='^%s/%s$'", r.report(), seed, max(total, length), regexp.QuoteMeta(a.name), on)
			break
		}
	}
	return sum
}

func names() (all []string) {
	for _, a := range attacks {
		all = append(all, a.name)
	}
	return all
}

// build builds redoubt from this module.
// TestTable holds the table of attacks to its form.
func TestTable(t *testing.T) {
	for i, a := range attacks {
		if a.name == "" || a.tries == "" || a.holds == "" || len(a.on) == 0 || a.attempt == nil {
			t.Errorf("attack %d, %q, leaves out its name, words, topologies or function", i, a.name)
		}
		if a.memory == 0 {
			t.Errorf("attack %q has no budget of memory", a.name)
		}
		if slices.Index(names(), a.name) != i {
			t.Errorf("two attacks have the name %q", a.name)
		}
	}
}
