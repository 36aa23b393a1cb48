package lock_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/faultnet"
	"github.com/redoubt-go/redoubt/lock"
)

// What happened to a lock, as an operation in a history. The fence names the
// lease.
type event struct {
	name  string
	what  string
	fence int64
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
)

// held is the state of one lock: the fence of the holder, 0 when nobody holds
// it, and the largest fence so far.
type held struct{ holder, fence int64 }

// One holder at a time, with fences that rise. What a client never learnt the
// outcome of is no operation: whoever sees such a lease says so. It may end at
// any time, but hold the lock only while nobody else does.
var lockModel = porcupine.Model{
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
	Init: func() any { return held{} },
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
	DescribeOperation: func(input, _ any) string {
		e := input.(event)
		return fmt.Sprintf("%s %d", e.what, e.fence%1e9)
	},
}

// A history is what several processes did, with times since its beginning.
type history struct {
	began time.Time

	mu    sync.Mutex
	ops   []porcupine.Operation
	known map[event]bool // the leases that somebody acquired
	lost  int            // calls without an answer
}

func (h *history) add(process int, e event, call, ret time.Time) {
	op := porcupine.Operation{ClientId: process, Input: e, Call: int64(call.Sub(h.began)), Return: math.MaxInt64}
	if !ret.IsZero() {
		op.Return = int64(ret.Sub(h.began))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	if e.what == acquired {
		h.known[e] = true
	}
}

func (h *history) fail() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost++
}

// check returns how often each thing happened.
func (h *history) check(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{"lost": h.lost}
	for i, op := range h.ops {
		e := op.Input.(event)
		if e.what == busy && !h.known[event{e.name, acquired, e.fence}] {
			e.what = strange
			h.ops[i].Input = e
		}
		counts[e.what]++
	}
	result, info := porcupine.CheckOperationsVerbose(lockModel, h.ops, time.Minute)
	if result != porcupine.Ok {
		file := filepath.Join(t.ArtifactDir(), "history.html")
		if err := porcupine.VisualizePath(lockModel, info, file); err != nil {
			t.Error(err)
		}
		t.Errorf("the history is not that of a lock: %s; with -artifacts it is kept in %s", result, file)
	}
	return counts
}

// Several processes use a few locks over networks that delay, cut, hold back
// and swallow. Whatever order the answers came in, there is an order in which
// one lock could have given them.
//
// HISTORY=10m go test -run TestHistory -timeout 1h ./lock runs it for ten minutes
// on each back end instead of two seconds.
func TestHistory(t *testing.T) {
	length := 2 * time.Second
	if s := os.Getenv("HISTORY"); s != "" {
		var err error
		length, err = time.ParseDuration(s)
		must(t, err)
	}
	each(t, func(t *testing.T, w *world) {
		const n, ttl = 5, 150 * time.Millisecond
		var processes []*process
		for i := range n {
			proxy := faultnet.New(t, w.Addr)
			rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, ReadTimeout: ttl})
			t.Cleanup(func() { _ = rdb.Close() })
			conn, err := goredis.Wrap(rdb)
			must(t, err)
			// Some renew their leases, some extend them by hand.
			m := w.mutex(w.clientOn(conn), lock.Options{TTL: ttl, NoRenew: i%2 == 0})
			processes = append(processes, &process{id: i, proxy: proxy, mutex: m, ttl: ttl, abandons: i%2 == 0})
		}
		total := map[string]int{}
		began := time.Now()
		for round := 0; time.Since(began) < length && !t.Failed(); round++ {
			h := &history{began: time.Now(), known: map[event]bool{}}
			names := []string{fmt.Sprint("a", round), fmt.Sprint("b", round)}
			var wg sync.WaitGroup
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			for i, p := range processes {
				seed := uint64(round*n + i)
				wg.Go(func() { p.disturb(ctx, rand.New(rand.NewPCG(seed, 1))) })
				wg.Go(func() { p.work(ctx, rand.New(rand.NewPCG(seed, 2)), h, names) })
			}
			wg.Wait()
			cancel()
			for what, n := range h.check(t) {
				total[what] += n
			}
		}
		t.Log(total)
		for _, what := range []string{acquired, extended, busy, "lost"} {
			if total[what] == 0 {
				t.Errorf("nothing was %s: the test shows nothing", what)
			}
		}
	})
}

// A process of the history has connections of its own.
type process struct {
	id       int
	proxy    *faultnet.Proxy
	mutex    *lock.Mutex
	ttl      time.Duration
	abandons bool
}

// pause waits for d, or until one of the two ends.
func pause(d time.Duration, done ...<-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done[0]:
	case <-done[len(done)-1]:
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
			p.proxy.Delay(upTo(rng, p.ttl/4))
		case 1:
			p.proxy.Cut()
		case 2:
			p.proxy.Blackhole(faultnet.ToClient)
		case 3:
			p.proxy.Blackhole(faultnet.ToServer)
		case 4:
			p.proxy.SwallowNextReply("EVALSHA")
		}
		pause(upTo(rng, p.ttl), ctx.Done())
		heal()
		pause(upTo(rng, p.ttl), ctx.Done())
	}
}

// work acquires, extends and releases until ctx ends.
func (p *process) work(ctx context.Context, rng *rand.Rand, h *history, names []string) {
	for ctx.Err() == nil {
		name := names[rng.IntN(len(names))]
		call := time.Now()
		lease, other, err := p.acquire(ctx, rng, name)
		switch {
		case err != nil:
			h.fail()
		case other != nil:
			h.add(p.id, event{name, busy, other.Fence}, call, time.Now())
			pause(upTo(rng, p.ttl/10), ctx.Done())
		default:
			h.add(p.id, event{name, acquired, lease.Token()}, call, time.Now())
			p.hold(ctx, rng, h, lease)
		}
	}
}

func (p *process) acquire(ctx context.Context, rng *rand.Rand, name string) (*lock.Lease, *lock.Busy, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond+upTo(rng, 2*p.ttl))
	defer cancel()
	if rng.IntN(2) == 0 {
		return p.mutex.TryAcquire(ctx, name)
	}
	lease, err := p.mutex.Acquire(ctx, name)
	return lease, nil, err
}

// hold uses a lease and ends it.
func (p *process) hold(ctx context.Context, rng *rand.Rand, h *history, lease *lock.Lease) {
	for rng.IntN(2) == 0 {
		pause(upTo(rng, p.ttl/4), lease.Done())
		call := time.Now()
		if lease.Extend(ctx, p.ttl) == nil {
			h.add(p.id, event{lease.Name(), extended, lease.Token()}, call, time.Now())
		}
	}
	way := rng.IntN(10)
	if way < 6 {
		pause(upTo(rng, p.ttl/4), lease.Done(), ctx.Done())
	} else { // stays until the lease is over, if nobody renews it
		pause(2*p.ttl, lease.Done())
	}
	call, ret := time.Now(), time.Time{}
	if way < 9 || !p.abandons {
		if lease.Release(ctx) == nil {
			ret = time.Now()
		}
	}
	if d := lease.Deadline(); d.Before(call) || way == 9 && p.abandons {
		call = d
	}
	h.add(p.id, event{lease.Name(), ended, lease.Token()}, call, ret)
}
