package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/faultdisk"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

func xs(n int) string { return strings.Repeat("x", n) }

func sprint(format string, a any) string {
	if !strings.Contains(format, "%d") {
		return format
	}
	return fmt.Sprintf(format, a)
}

func liveBytes() int64 {
	runtime.GC()
	runtime.GC() // what was in pools goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fillKeys sets keys of about 200 bytes each.
func fillKeys(s *Session, prefix string, n int, options string) {
	for i := range n {
		run(s, fmt.Sprintf("SET %s%d %s %s", prefix, i, xs(100), options))
	}
}

func within(t *testing.T, e *Engine, slack int64) {
	t.Helper()
	if used, limit := e.memory.used.Load(), e.memory.limit.Load(); used > limit+slack {
		t.Errorf("%d bytes are used, and the limit is %d", used, limit)
	}
}

// Promise: With MaxMemory the count of memory stays at the limit.
func TestEvictionKeepsToTheLimit(t *testing.T) {
	for _, p := range evictionPolicies {
		if p.choice == chooseNone {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			e := open(t, Options{MaxMemory: 100 << 10, MaxMemoryPolicy: p.name})
			s := e.Session()
			fillKeys(s, "k", 5000, "EX 1000")
			within(t, e, 400)
			if n, evicted := e.memory.used.Load(), e.stats.evicted.Load(); n < 90<<10 || evicted < 3000 {
				t.Errorf("%d bytes are used and %d keys were evicted: too many, or none", n, evicted)
			}
			accounts(t, e)
			// Under a policy for volatile keys the others stay.
			run(s, "FLUSHALL")
			fillKeys(s, "stays", 200, "")
			fillKeys(s, "goes", 1000, "EX 1000")
			within(t, e, 400)
			stay := strings.Repeat(" stays%d", 200)
			for i := range 200 {
				stay = strings.Replace(stay, "%d", fmt.Sprint(i), 1)
			}
			if p.volatile {
				want(t, s, "EXISTS"+stay, ":200\r\n")
				fillKeys(s, "k", 1000, "")
				begins(t, run(s, "SET another one"), "-OOM ")
			}
		})
	}
}

func TestEvictionByTimeToLive(t *testing.T) {
	e := open(t, Options{MaxMemoryPolicy: "volatile-ttl"})
	s := e.Session()
	for i := range 500 {
		run(s, fmt.Sprintf("SET k%d %s EX %d", i, xs(100), 1000+i*10))
	}
	run(s, fmt.Sprint("CONFIG SET maxmemory-eviction-tenacity 100 maxmemory ", e.memory.used.Load()/2))
	gone, late := 0, 0
	for i := range 500 {
		if run(s, fmt.Sprint("EXISTS k", i)) == ":0\r\n" {
			if gone++; i > 350 {
				late++
			}
		}
	}
	if t.Log(gone, late); gone < 240 || late > gone/10 {
		t.Errorf("%d keys were evicted, %d of those that expire late", gone, late)
	}
}

// TestEvictionTellsEverybody: the log, watchers, trackers, subscribers and INFO
// hear of a key that was evicted.
func TestEvictionTellsEverybody(t *testing.T) {
	var mu sync.Mutex
	evicted := map[string]bool{}
	j := &memoryJournal{}
	e := open(t, Options{Journal: j, MaxMemoryPolicy: "allkeys-lru", Events: func(ev Event) {
		if ev.Name == "evicted" && ev.Class == 'e' {
			mu.Lock()
			evicted[string(ev.Key)] = true
			mu.Unlock()
		}
	}})
	s, watcher := e.Session(), e.Session()
	p := tracked(t, e, "")
	run(s, "CONFIG SET notify-keyspace-events Ee")
	var published atomic.Int64
	listener := e.Session()
	listener.OnPush(func(frame []byte) {
		if strings.Contains(string(frame), "__keyevent@0__:evicted") {
			published.Add(1)
		}
	})
	run(listener, "SUBSCRIBE __keyevent@0__:evicted")
	run(s, "SET a 1")
	p.send("GET a")
	p.want("$1\r\n1\r\n")
	run(watcher, "WATCH a")
	run(watcher, "MULTI")
	run(watcher, "PING")
	j.effects = nil
	want(t, s, "CONFIG SET maxmemory 1", "+OK\r\n")
	want(t, s, "EXISTS a", ":0\r\n")
	want(t, s, "CONFIG SET maxmemory 0", "+OK\r\n")
	want(t, watcher, "EXEC", "*-1\r\n")
	p.want(invalidation("a"))
	if len(j.effects) != 1 || len(j.effects[0].Commands) != 1 || quote(j.effects[0].Commands[0]) != quote(split("DEL a")) {
		t.Errorf("the journal was told %v", j.effects)
	}
	mu.Lock()
	defer mu.Unlock()
	if !evicted["a"] || published.Load() < 1 {
		t.Errorf("events: %v; published: %d", evicted, published.Load())
	}
	if info := run(s, "INFO stats"); !strings.Contains(info, "evicted_keys:1\r\n") {
		t.Error(info)
	}
	run(s, "CONFIG RESETSTAT")
	if info := run(s, "INFO stats"); !strings.Contains(info, "evicted_keys:0\r\n") {
		t.Error(info)
	}
}

// TestEvictionIsDurable: what was evicted does not come back, nothing else is
// lost, and an engine opened with too many keys gives some up.
func TestEvictionIsDurable(t *testing.T) {
	clock, disk := newFakeClock(), faultdisk.New()
	e := onDisk(t, disk, Options{Clock: clock, Fsync: aof.Always, MaxMemory: 60 << 10, MaxMemoryPolicy: "allkeys-lru"})
	s := e.Session()
	for i := range 1500 {
		run(s, fmt.Sprintf("SET k%d %s", i, xs(100)))
		if i%3 == 0 {
			run(s, fmt.Sprintf("EXPIRE k%d %d", i, 1+i%50))
		}
		if i%10 == 0 {
			clock.advance(100 * time.Millisecond) // so that keys also expire
		}
	}
	before := state(e)
	if e.stats.evicted.Load() == 0 || e.stats.expired.Load() == 0 {
		t.Fatalf("%d keys were evicted, %d have expired", e.stats.evicted.Load(), e.stats.expired.Load())
	}
	accounts(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	again := onDisk(t, disk, Options{Clock: clock, Fsync: aof.Always})
	sameState(t, state(again), before)
	accounts(t, again)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	tight := onDisk(t, disk, Options{Clock: clock, MaxMemory: 30 << 10, MaxMemoryPolicy: "allkeys-random"})
	for deadline := time.Now().Add(10 * time.Second); tight.memory.over(); {
		if time.Now().After(deadline) {
			t.Fatal("an engine opened above its limit stays there")
		}
		runtime.Gosched()
	}
}

// A zipf load on a cache: a miss fetches. It returns the share of hits.
func hitRate(t *testing.T, policy string, keys, fit, requests int) float64 {
	clock := newFakeClock()
	e := open(t, Options{Clock: clock, MaxMemoryPolicy: policy})
	s := e.Session()
	name := func(i uint64) []byte { return fmt.Appendf(nil, "key:%08d", i) }
	val, get, set := []byte(xs(64)), []byte("GET"), []byte("SET")
	s.Do(nil, [][]byte{set, name(0), val})
	e.memory.limit.Store(e.memory.used.Load() * int64(fit))
	z := rand.NewZipf(rand.New(rand.NewPCG(7, 7)), 1.1, 10, uint64(keys-1))
	hits := 0
	var out []byte
	for i := range requests {
		key := name(z.Uint64())
		if out, _ = s.Do(out[:0], [][]byte{get, key}); out[1] != '-' {
			if i > requests/2 {
				hits++
			}
		} else {
			s.Do(out[:0], [][]byte{set, key, val})
		}
		clock.advance(accessTick)
	}
	return float64(hits) / float64(requests/2)
}

// trueLRU is hitRate of a cache that always gives up the least recently used.
func trueLRU(keys, fit, requests int) float64 {
	z := rand.NewZipf(rand.New(rand.NewPCG(7, 7)), 1.1, 10, uint64(keys-1))
	last, byTime, oldest, hits := map[uint64]int{}, map[int]uint64{}, 0, 0
	for i := range requests {
		k := z.Uint64()
		if at, ok := last[k]; ok {
			if delete(byTime, at); i > requests/2 {
				hits++
			}
		} else if len(last) == fit {
			for {
				k, ok := byTime[oldest]
				if oldest++; ok {
					delete(byTime, oldest-1)
					delete(last, k)
					break
				}
			}
		}
		last[k], byTime[i] = i, k
	}
	return float64(hits) / float64(requests/2)
}

func TestHitRates(t *testing.T) {
	const keys, fit, requests = 20_000, 2000, 150_000
	best := trueLRU(keys, fit, requests)
	lru, lfu, random := hitRate(t, "allkeys-lru", keys, fit, requests), hitRate(t, "allkeys-lfu", keys, fit, requests), hitRate(t, "allkeys-random", keys, fit, requests)
	t.Logf("true LRU %.4f, allkeys-lru %.4f, allkeys-lfu %.4f, allkeys-random %.4f", best, lru, lfu, random)
	if lru < best-0.01 {
		t.Errorf("allkeys-lru hits %.4f, true LRU %.4f", lru, best)
	}
	if lru < random+0.02 || lfu < random+0.02 {
		t.Errorf("allkeys-lru hits %.4f, allkeys-lfu %.4f: no better than allkeys-random with %.4f", lru, lfu, random)
	}
}

// TestMemoryIsBounded writes ten times what fits, and looks at Go's heap.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 8 << 20
	before := liveBytes()
	e := open(t, Options{MaxMemory: limit, MaxMemoryPolicy: "allkeys-lru"})
	s := e.Session()
	value := []byte(xs(1000))
	most := int64(0)
	for i := range 10 * limit / 1000 {
		s.Do(nil, [][]byte{[]byte("SET"), fmt.Appendf(nil, "key:%d", i), value})
		if i%10_000 == 9999 {
			most = max(most, liveBytes()-before)
		}
	}
	within(t, e, 2000)
	t.Logf("limit %d, live at most %d", limit, most)
	if most > limit*13/10 {
		t.Errorf("%d bytes were live with a limit of %d", most, limit)
	}
}

// TestEvictionByMany has many goroutines write, read, transact and run scripts
// far above the limit.
func TestEvictionByMany(t *testing.T) {
	e := open(t, Options{MaxMemory: 300 << 10, MaxMemoryPolicy: "allkeys-lru"})
	script := "redis.call('SET', KEYS[1], ARGV[1]); redis.call('EXPIRE', KEYS[1], 1); return redis.call('GET', KEYS[1])"
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			s := e.Session()
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 600 {
				k := r.IntN(5000)
				run(s, fmt.Sprintf("SET k%d %s PX %d", k, xs(r.IntN(400)+1), 1+r.IntN(50)))
				run(s, fmt.Sprintf("HSET h%d f%d %s", k%300, k%50, xs(50)))
				run(s, fmt.Sprintf("RPUSH l%d %s", k%300, xs(50)))
				run(s, fmt.Sprintf("LPOP l%d", k%299))
				run(s, fmt.Sprintf("WATCH k%d", k+1))
				run(s, "MULTI")
				run(s, fmt.Sprintf("MSET k%d %s k%d %s", k+1, xs(60), k+2, xs(60)))
				run(s, fmt.Sprintf("GET k%d", k))
				run(s, "EXEC")
				runScript(s, "EVAL", script, "1", fmt.Sprint("k", k), xs(80))
				if k%500 == 0 {
					run(s, "FLUSHDB")
				}
			}
		})
	}
	wg.Wait()
	e.sweeper.stop()
	if used := e.memory.used.Load(); used > 400<<10 {
		t.Errorf("%d bytes are used", used)
	}
	e.memory.evictor.stop()
	accounts(t, e)
}

// TestEvictionDoesNotWaitForAScript: a script holds the shard of most keys, and
// others evict what they can.
func TestEvictionDoesNotWaitForAScript(t *testing.T) {
	e := open(t, Options{MaxMemoryPolicy: "allkeys-lru", MaxMemory: 100 << 10})
	s, slow := e.Session(), e.Session()
	fillKeys(s, "{big}", 450, "")
	run(s, "CONFIG SET lua-time-limit 1")
	started, done := make(chan struct{}), make(chan string)
	go func() {
		close(started)
		done <- runScript(slow, "EVAL", "while true do end", "1", "{big}")
	}()
	<-started
	running(t, e)
	e.scripts.slow.Store(0) // others are not told BUSY
	for i := range 1000 {
		begin := time.Now()
		if got := run(s, fmt.Sprintf("SET k%d %s", i, xs(100))); !strings.HasPrefix(got, "+OK") && shardOf(fmt.Appendf(nil, "k%d", i)) != shardOf([]byte("{big}")) {
			t.Fatalf("SET k%d: %s", i, got)
		}
		if took := time.Since(begin); took > 10*time.Second { // the script never ends
			t.Fatalf("SET k%d took %v", i, took)
		}
		if shardOf(fmt.Appendf(nil, "k%d", i+1)) == shardOf([]byte("{big}")) {
			break // the next would rightly wait
		}
	}
	e.scripts.slow.Store(1)
	want(t, s, "SCRIPT KILL", "+OK\r\n")
	<-done
	want(t, s, "SET another "+xs(100), "+OK\r\n")
	within(t, e, 400)
}

func TestOpenRefusesMemoryOptions(t *testing.T) {
	for _, o := range []Options{{MaxMemory: -1}, {MaxMemoryPolicy: "lru"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		} else if o.MaxMemoryPolicy != "" && !strings.Contains(err.Error(), "allkeys-lru") {
			t.Errorf("the error does not say what is allowed: %v", err)
		}
	}
}

func TestPoolKeepsTheBest(t *testing.T) {
	var v evictor
	steps := randtest.Watch(t)
	for _, i := range randtest.Rand(t).Perm(100) {
		steps.Begin(func() string { return fmt.Sprint("offer ", i) })
		v.offer(candidate{key: fmt.Sprint(i), score: uint64(i)})
		v.offer(candidate{key: fmt.Sprint(i), score: uint64(i)}) // twice
	}
	var scores []uint64
	for _, c := range v.pool {
		scores = append(scores, c.score)
	}
	if !slices.Equal(scores, []uint64{84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99}) {
		t.Errorf("the pool has %v", scores)
	}
}
