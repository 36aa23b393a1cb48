package attack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// An ending is how a round ends the process.
type ending string

const (
	once  ending = "SIGTERM once"
	twice ending = "SIGTERM twice"
)

var endings = []ending{once, twice}

// slack is added to the drain time when the process is told to end, and is all it
// has after the second signal: the machine may be busy.
const slack = 5 * time.Second

// A round is one attack on one target.
type round struct {
	attack
	t   *testing.T
	on  topology
	rng *rand.Rand
	*target

	tries atomic.Int64 // what the attackers sent, or did
	slow  atomic.Int64 // in ns: the longest of what the attack itself measures, like a stop

	ending atomic.Bool // the process was told to end

	mu     sync.Mutex
	faults []string
	sent   [40]note // the last that attackers sent
	count  int

	victims victimStats
	peak    int64 // KiB
}

// A note is the beginning of what an attacker sent.
type note struct {
	text   string
	length int
}

func newRound(t *testing.T, a attack, on topology, rng *rand.Rand) *round {
	r := &round{attack: a, t: t, on: on, rng: rng}
	if r.wait == 0 {
		r.wait = waitLimit
	}
	return r
}

// fault notes what an attacker saw that must not be. Once the process is told to
// end, what attackers see means nothing.
func (r *round) fault(format string, args ...any) {
	if !r.ending.Load() {
		r.judge(format, args...)
	}
}

// judge notes that something didn't hold.
func (r *round) judge(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.faults) < 10 {
		r.faults = append(r.faults, short(fmt.Sprintf(format, args...), 600))
	}
}

func (r *round) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.faults) > 0
}

// sending notes what is about to be sent.
func (r *round) sending(raw []byte) {
	r.tries.Add(1)
	n := note{string(raw[:min(len(raw), 120)]), len(raw)}
	r.mu.Lock()
	r.sent[r.count%len(r.sent)] = n
	r.count++
	r.mu.Unlock()
}

// took notes how long something took that the attack measures.
func (r *round) took(d time.Duration) {
	for was := r.slow.Load(); int64(d) > was && !r.slow.CompareAndSwap(was, int64(d)); was = r.slow.Load() {
	}
}

// mostMemory is when the process is killed: above the budget, so that the peak
// can be told, but not by so much that the machine suffers.
func (r *round) mostMemory() int64 {
	if *raced {
		return 12 << 20
	}
	return (r.memory + 1024) << 10
}

// run is the round: length is how long the attackers have at least.
func (r *round) run(length time.Duration, end ending) {
	r.target = newTarget(r, r.on)
	if err := r.start(r.mostMemory()); err != nil {
		r.fault("the server does not start: %v", err)
		return
	}
	defer r.kill()

	group := &victims{r: r, inUse: map[string]holders{}}
	if !r.alone {
		for i := range group.masters {
			group.masters[i] = redistest.Start(r.t).URL()
		}
		group.start()
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	attackers := r.release(ctx, length)

	r.victims = group.stop()
	if !r.alone {
		r.judgeVictims()
		r.judgeEnd(end)
	}
	r.kill()
	stop()
	<-attackers
	r.peak = r.peakKiB
	if most := r.memory << 10; r.peak > most && !*raced {
		r.judge("memory: the process took %d MiB; the budget is %d MiB", r.peak>>10, r.memory)
	}
	r.log.hears(func(l *tailLog) bool {
		if len(l.panics) > 0 {
			r.judge("the log tells of a panic: %s", short(strings.Join(l.panics, "\n"), 500))
		}
		return true
	})
	debug.FreeOSMemory() // The next round's peak is its own, and the machine has other work.
}

// release lets the attackers go and returns when they have had their time, and at
// least one pass. They go on until ctx ends, so that the process is told to end
// under attack. An attack that runs alone has ended by then. The channel is closed when
// no attacker is left.
func (r *round) release(ctx context.Context, length time.Duration) (gone chan struct{}) {
	gone = make(chan struct{})
	first := make(chan struct{})
	enough := time.After(length)
	go func() {
		defer close(gone)
		began := time.Now()
		for pass := 0; ctx.Err() == nil && !r.failed(); pass++ {
			r.attempt(ctx, r.rng, r)
			if pass == 0 {
				close(first)
			}
			if r.alone && time.Since(began) >= length || !r.alone && !r.running() {
				return
			}
		}
	}()
	<-first
	if r.alone {
		<-gone
		return gone
	}
	select {
	case <-enough:
	case <-gone:
	}
	return gone
}

func (r *round) judgeVictims() {
	s := &r.victims
	for _, wrong := range s.wrong {
		r.judge("victim: %s", wrong)
	}
	if s.longest > r.wait {
		r.judge("a victim waited %v for %s; the bound is %v", s.longest.Round(time.Millisecond), s.slowest, r.wait)
	}
	if s.commands == 0 {
		r.judge("no victim's command came through")
	}
	if !r.running() {
		r.judge("the process has ended: %v", r.cmd.ProcessState)
	}
}

// judgeEnd tells the process to end, under attack.
func (r *round) judgeEnd(end ending) {
	if !r.running() {
		return
	}
	r.ending.Store(true)
	began := time.Now()
	r.signal(syscall.SIGTERM)
	limit := drain + slack
	if end == twice {
		// Two signals at once may come as one.
		heard := func(l *tailLog) bool { return l.draining }
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !r.log.hears(heard) && r.running() && time.Since(began) < slack {
			<-tick.C
		}
		r.signal(syscall.SIGTERM)
		limit = slack
	}
	if !r.gone(limit) {
		r.judge("%s: the process still runs after %v", end, limit)
		r.signal(syscall.SIGQUIT) // Its stacks are in the report.
		r.gone(slack)
		return
	}
	if code := r.cmd.ProcessState.ExitCode(); code != 0 && end == once && !*raced {
		r.judge("%s: exit code %d, want 0", end, code)
	}
}

// report is what a person needs to find the fault.
func (r *round) report() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s: %d tries, %d commands of victims, longest wait %v, peak %d MiB\n", r.name, r.on, r.tries.Load(),
		r.victims.commands, r.victims.longest.Round(time.Millisecond), r.peak>>10)
	for _, f := range r.faults {
		fmt.Fprintf(&b, "FAULT: %s\n", f)
	}
	b.WriteString("the last that attackers sent:\n")
	for i := max(0, r.count-len(r.sent)); i < r.count; i++ {
		n := r.sent[i%len(r.sent)]
		fmt.Fprintf(&b, "  %q (%d bytes)\n", n.text, n.length)
	}
	if r.target != nil {
		fmt.Fprintf(&b, "the server's log:\n%s", r.log.tail())
	}
	return b.String()
}

// each runs n attackers, each with random numbers of its own, and waits for them.
func each(rng *rand.Rand, n int, attacker func(i int, rng *rand.Rand)) {
	var all sync.WaitGroup
	for i := range n {
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		all.Go(func() { attacker(i, own) })
	}
	all.Wait()
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
