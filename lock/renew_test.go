package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

// A renewals records when locks were renewed, by key, and in how large pipelines.
type renewals struct {
	clock func() time.Time

	mu      sync.Mutex
	last    map[string]time.Time // acquired, or renewed
	count   map[string]int
	gap     map[string]time.Duration // the longest so far
	largest int
	windows map[int64]int // renewals by 100 ms
}

func newRenewals() *renewals {
	r := &renewals{clock: time.Now}
	r.reset()
	return r
}

func (r *renewals) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.count, r.gap, r.windows = map[string]time.Time{}, map[string]int{}, map[string]time.Duration{}, map[int64]int{}
}

func (r *renewals) note(cmds []redoubt.Cmd, replies []redoubt.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock()
	for i, cmd := range cmds {
		switch cmd.Script.Name() {
		case "lock.acquire":
			r.last[cmd.Keys[0]] = now
		case "lock.extend":
			r.largest = max(r.largest, len(cmds))
			if held, _, err := wire.ReadExtend(replies[i]); err != nil || !held {
				continue
			}
			r.windows[now.UnixMilli()/100]++
			r.count[cmd.Keys[0]]++
			r.gap[cmd.Keys[0]] = max(r.gap[cmd.Keys[0]], now.Sub(r.last[cmd.Keys[0]]))
			r.last[cmd.Keys[0]] = now
		}
	}
}

// longest returns the longest time for which a key went without, until now.
func (r *renewals) longest(keys []string) (gap time.Duration, count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock()
	for i, key := range keys {
		gap = max(gap, r.gap[key], now.Sub(r.last[key]))
		if i == 0 || r.count[key] < count {
			count = r.count[key]
		}
	}
	return gap, count
}

// A stub is a server of several nodes that grants everything. A call to a node
// takes as long as answers says; it hangs if that is negative.
type stub struct {
	*renewals

	nodes   int
	answers func(node string, cmds []redoubt.Cmd) time.Duration
}

func (s *stub) Node(key string) string {
	return fmt.Sprint("node", int(key[len(key)-len("0}:lock")])%s.nodes)
}

func (s *stub) Primaries(context.Context) ([]redoubt.Conn, error) { return nil, errors.ErrUnsupported }

func (s *stub) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	return s.Pipeline(ctx, []redoubt.Cmd{cmd})[0]
}

func (s *stub) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cmds))
	var takes time.Duration
	if s.answers != nil {
		takes = s.answers(s.Node(cmds[0].Keys[0]), cmds)
	}
	var answer <-chan time.Time
	if takes == 0 {
		now := make(chan time.Time)
		close(now)
		answer = now
	} else if takes > 0 {
		answer = time.After(takes)
	}
	select {
	case <-answer:
	case <-ctx.Done():
		for i := range replies {
			replies[i].Err = redoubt.UnknownOutcome(ctx.Err())
		}
		return replies
	}
	for i, cmd := range cmds {
		ttl := int64(0)
		if len(cmd.Args) > 1 {
			_, _ = fmt.Sscan(cmd.Args[1], &ttl)
		}
		replies[i].Val = []any{int64(1), int64(1), ttl, ""}[:map[string]int{"lock.acquire": 4, "lock.extend": 3, "lock.release": 1}[cmd.Script.Name()]]
	}
	if s.renewals != nil {
		s.note(cmds, replies)
	}
	return replies
}

func (s *stub) client(tb testing.TB) *redoubt.Client {
	tb.Helper()
	client, err := redoubt.New(s, redoubt.Options{DownAfter: -1}) // it knows no PING
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

func (s *stub) mutex(tb testing.TB, client *redoubt.Client, ttl time.Duration) *lock.Mutex {
	tb.Helper()
	m, err := lock.New(client, lock.Options{TTL: ttl})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// take acquires n locks, as many on each node, and returns them and
// their keys by node.
func (s *stub) take(tb testing.TB, client *redoubt.Client, m *lock.Mutex, n int) (leases map[string][]*lock.Lease, keys map[string][]string) {
	tb.Helper()
	leases, keys = map[string][]*lock.Lease{}, map[string][]string{}
	for i := range n {
		name := fmt.Sprint("n", i)
		key, err := keyOf(client, name)
		if err != nil {
			tb.Fatal(err)
		}
		lease, _, err := m.TryAcquire(context.Background(), name)
		if err != nil {
			tb.Fatal(err)
		}
		leases[s.Node(key)] = append(leases[s.Node(key)], lease)
		keys[s.Node(key)] = append(keys[s.Node(key)], key)
	}
	return leases, keys
}

// 10,000 locks acquired at one moment are each renewed in time, in pipelines of
// bounded size, spread over time, without goroutines of their own.
//
// Promise: Leases are renewed before a third of their TTL has passed, however
// many there are, and slow nodes of a cluster delay no renewal on the others.
func TestRenewalsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, ttl = 10_000, 30 * time.Second
		s := &stub{renewals: newRenewals(), nodes: 1}
		client := s.client(t)
		m := s.mutex(t, client, ttl)
		goroutines := runtime.NumGoroutine()
		leases, keys := s.take(t, client, m, n)
		if more := runtime.NumGoroutine() - goroutines; more > n/100 { // other tests have some
			t.Errorf("%d goroutines more", more)
		}
		await.Advance(time.Minute)
		gap, count := s.longest(keys["node0"])
		if gap > ttl/3 || count < 6 {
			t.Errorf("a lock was renewed %d times, and once not for %v; want every third of %v", count, gap, ttl)
		}
		if s.largest > 128 {
			t.Errorf("%d in one pipeline", s.largest)
		}
		for _, n := range s.windows {
			if n > 600 { // 10,000 within a twelfth of the TTL are 400 in 100 ms
				t.Errorf("%d renewals within 100 ms", n)
			}
		}
		for _, l := range leases["node0"] {
			must(t, l.Release(t.Context()))
		}
	})
}

// Of three nodes one hangs, and one is slow; a single call to the third hangs too.
// On the third, and on the slow one, all are renewed in time.
//
// Promise: Leases are renewed before a third of their TTL has passed, however
// many there are, and slow nodes of a cluster delay no renewal on the others.
func TestSlowNodesDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, ttl = 1500, 30 * time.Second
		var dead, hung sync.Once
		began := time.Now()
		s := &stub{renewals: newRenewals(), nodes: 3}
		s.answers = func(node string, cmds []redoubt.Cmd) (takes time.Duration) {
			if time.Since(began) < time.Second {
				return 0
			}
			switch node {
			case "node0":
				dead.Do(func() { t.Log("a node is dead") })
				return -1
			case "node1":
				return 500 * time.Millisecond
			default:
				hung.Do(func() { t.Logf("%d renewals hang", len(cmds)); takes = -1 })
				return takes
			}
		}
		client := s.client(t)
		leases, keys := s.take(t, client, s.mutex(t, client, ttl), n)
		await.Advance(time.Minute)
		for node, limit := range map[string]time.Duration{
			"node1": ttl/3 + 1500*time.Millisecond, // waits for a sender to come back, and for itself
			"node2": ttl/3 + ttl/3 + ttl/10,        // what hangs is given up after a third, and sent again
		} {
			if gap, count := s.longest(keys[node]); gap > limit || count < 4 {
				t.Errorf("%s: a lock was renewed %d times, and once not for %v; want %v", node, count, gap, limit)
			}
		}
		late := 0
		s.mu.Lock()
		for _, key := range keys["node2"] {
			if s.gap[key] > ttl/3 {
				late++
			}
		}
		s.mu.Unlock()
		if late > 128 {
			t.Errorf("one call that hangs delayed %d renewals", late)
		}
		for node, leases := range leases {
			for _, l := range leases {
				if err := l.Err(); (err == nil) == (node == "node0") {
					t.Fatalf("%s: Err is %v", node, err)
				}
				if node != "node0" {
					must(t, l.Release(t.Context()))
				}
			}
		}
	})
}

// A server is away for so long that all leases run out. When it is back new locks
// are renewed like those before.
//
// Promise: Leases are renewed before a third of their TTL has passed, however
// many there are, and slow nodes of a cluster delay no renewal on the others.
func TestNewLocksAfterALossAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, ttl = 1000, 10 * time.Second
		var away atomic.Bool
		s := &stub{renewals: newRenewals(), nodes: 1}
		s.answers = func(string, []redoubt.Cmd) time.Duration {
			if away.Load() {
				return -1
			}
			return time.Millisecond
		}
		client := s.client(t)
		m := s.mutex(t, client, ttl)
		leases, _ := s.take(t, client, m, n)
		away.Store(true)
		await.Advance(2 * ttl)
		for _, l := range leases["node0"] {
			if err := l.Err(); !errors.Is(err, lock.ErrNotHeld) {
				t.Fatalf("Err is %v, but the server is away", err)
			}
		}
		away.Store(false)
		s.reset()
		leases, keys := s.take(t, client, m, n)
		await.Advance(10 * ttl)
		if gap, count := s.longest(keys["node0"]); gap > ttl/3+time.Millisecond || count < 30 {
			t.Errorf("a new lock was renewed %d times, and once not for %v", count, gap)
		}
		for _, l := range leases["node0"] {
			must(t, l.Release(t.Context()))
		}
	})
}

// Leases are released at any time, while renewals are on their way too. None is
// renewed after that.
//
// Promise: Leases are renewed before a third of their TTL has passed, however
// many there are, and slow nodes of a cluster delay no renewal on the others.
func TestNothingIsRenewedAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, ttl = 600, 3 * time.Second
		s := &stub{nodes: 1}
		var mu sync.Mutex
		released := map[string]bool{}
		s.answers = func(_ string, cmds []redoubt.Cmd) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			if cmds[0].Script.Name() != "lock.extend" {
				return 0
			}
			for _, cmd := range cmds {
				if released[cmd.Args[0]] {
					t.Error("a lease was renewed after its release")
				}
			}
			return 400 * time.Millisecond // so that some wait for a sender
		}
		client := s.client(t)
		m := s.mutex(t, client, ttl)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				lease, _, err := m.TryAcquire(t.Context(), fmt.Sprint("n", i))
				if err != nil {
					t.Error(err)
					return
				}
				await.Advance(time.Duration(5*i) * time.Millisecond)
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				released[lease.ID()] = true
			})
		}
		wg.Wait()
		await.Advance(10 * ttl)
	})
}

// recorded is a Conn whose renewals are recorded.
type recorded struct {
	*goredis.Conn

	renewals *renewals
}

func (c *recorded) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	r := c.Conn.Do(ctx, cmd)
	c.renewals.note([]redoubt.Cmd{cmd}, []redoubt.Reply{r})
	return r
}

func (c *recorded) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := c.Conn.Pipeline(ctx, cmds)
	c.renewals.note(cmds, replies)
	return replies
}

func (c *recorded) PipelineEach(ctx context.Context, cmds []redoubt.Cmd, each func(int, redoubt.Reply)) {
	c.Conn.PipelineEach(ctx, cmds, func(i int, r redoubt.Reply) {
		c.renewals.note(cmds[i:i+1], []redoubt.Reply{r})
		each(i, r)
	})
}

// One process holds many locks on a cluster of three nodes. One dies: it
// is stopped, so that nothing is refused, or killed. The locks on the others are
// each renewed within half of their TTL.
//
// There are 1,000 locks and the node is stopped; with LOCK_FAULTS=full there are
// 10,000 locks, and both.
//
// Promise: Leases are renewed before a third of their TTL has passed, however
// many there are, and slow nodes of a cluster delay no renewal on the others.
func TestManyLocksOutliveAShard(t *testing.T) {
	slow.Test(t, "1,000 locks of 12 s are renewed while a node is stopped")
	t.Parallel()
	const ttl = 12 * time.Second
	n := 1000
	ways := map[string]func(*redistest.Server){"stopped": (*redistest.Server).Pause}
	if os.Getenv("LOCK_FAULTS") == "full" {
		n = 10_000
		ways["killed"] = (*redistest.Server).Kill
	}
	for name, die := range ways {
		t.Run(name, func(t *testing.T) {
			cluster := redistest.StartCluster(t, 3, 0)
			for _, node := range cluster.Nodes() {
				node.CLI("CONFIG", "SET", "cluster-require-full-coverage", "no")
			}
			inner, err := goredis.Open(t.Context(), cluster.URL())
			must(t, err)
			t.Cleanup(func() { _ = inner.Close() })
			conn := &recorded{Conn: inner.Conn, renewals: newRenewals()}
			// By a clock that stands still while the machine does: how late a busy machine
			// is says nothing of the dead node.
			pulse, began := await.NewPulse(t), time.Now()
			conn.renewals.clock = func() time.Time { return began.Add(pulse.Now()) }
			client := clienttest.New(t, conn, "")
			m, err := lock.New(client, lock.Options{TTL: ttl})
			must(t, err)

			dying := cluster.Nodes()[0]
			leases := make([]*lock.Lease, n)
			eventually(t, "the slots are known", func() bool { return inner.Node("a") != "" })
			var wg sync.WaitGroup
			for first := range 50 {
				wg.Go(func() {
					for i := first; i < n; i += 50 {
						var err error
						if leases[i], _, err = m.TryAcquire(t.Context(), fmt.Sprint("lock:", i)); err != nil || leases[i] == nil {
							t.Errorf("lock %d: %v", i, err)
						}
					}
				})
			}
			wg.Wait()
			if t.Failed() {
				return
			}
			var live []string
			var kept, lost []*lock.Lease
			for _, lease := range leases {
				key, err := keyOf(client, lease.Name())
				must(t, err)
				if inner.Node(key) == dying.Addr() {
					lost = append(lost, lease)
				} else {
					live, kept = append(live, key), append(kept, lease)
				}
			}
			if len(lost) < n/4 || len(lost) > n/2 {
				t.Fatalf("%d of %d locks are on one of three nodes", len(lost), n)
			}
			die(dying)
			for _, lease := range lost {
				<-lease.Done()
				if err := lease.Err(); !errors.Is(err, lock.ErrNotHeld) {
					t.Fatalf("Err is %v on a node that is dead", err)
				}
			}
			_, before := conn.renewals.longest(live)
			var gap time.Duration
			count := 0
			for count < before+3 && !t.Failed() {
				pause(ttl/20, t.Context().Done())
				if gap, count = conn.renewals.longest(live); gap > ttl/2 {
					t.Fatalf("a lock on a node that lives was not renewed for %v of %v", gap, ttl)
				}
			}
			t.Logf("%d locks of %v: renewed %d times or more, after at most %v", len(live), ttl, count, gap)
			for _, lease := range kept {
				if err := lease.Err(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// The cost of holding a lock: the memory of one, and the time to renew it as one
// of 100, without the server and its client.
func BenchmarkRenewal(b *testing.B) {
	const n = 10_000
	s := &stub{nodes: 1}
	client := s.client(b)
	m := s.mutex(b, client, time.Hour)
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	leases := make([]*lock.Lease, n)
	before := heap()
	for i := range leases {
		var err error
		if leases[i], _, err = m.TryAcquire(b.Context(), "orders"); err != nil {
			b.Fatal(err)
		}
	}
	size := float64(heap()-before) / n
	const together = 100
	i := 0
	for b.Loop() {
		lock.Renew(leases[i : i+together])
		i = (i + together) % n
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/together, "ns/renewal")
	b.ReportMetric(size, "B/lock")
}
