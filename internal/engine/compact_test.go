package engine

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
)

// TestCompactUnderLoad compacts again and again while clients write. Every key is the same when the
// engine is opened again.
//
// Promise: A compaction under load loses no change.
func TestCompactUnderLoad(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir, Fsync: aof.Never})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writerCount {
		wg.Go(func() {
			s := e.Session()
			for n := 1; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				step(s, w, n)
				run(s, fmt.Sprintf("LTRIM list%d -50 -1", w))
				run(s, fmt.Sprintf("HSET hash%d f%d %d", w, n%700, n))
				run(s, fmt.Sprintf("HPEXPIRE hash%d 5 FIELDS 1 f%d", w, n*7%700))
				run(s, fmt.Sprintf("ZADD zset%d %d m%d", w, n, n%300))
				run(s, fmt.Sprintf("SUNIONSTORE union%d set%d set%d", w, w, (w+1)%writerCount))
				run(s, fmt.Sprintf("SADD set%d m%d", w, n%500))
				run(s, fmt.Sprintf("SPOP set%d", w))
			}
		})
	}
	for range 4 {
		if err := e.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	s := e.Session()
	fields := "FIELDS 700"
	for i := range 700 {
		fields += fmt.Sprint(" f", i)
	}
	for w := range writerCount { // from here on nothing expires
		run(s, fmt.Sprintf("DEL volatile%d", w))
		run(s, fmt.Sprintf("HPERSIST hash%d %s", w, fields))
	}
	before := state(e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	sameState(t, state(open(t, Options{Dir: dir})), before)
}

// BenchmarkDurable measures one SET from many goroutines at once.
func BenchmarkDurable(b *testing.B) {
	for _, policy := range append(policies, 99) {
		name, opts := "memory", Options{}
		if policy != 99 {
			name, opts = policy.String(), Options{Dir: b.TempDir(), Fsync: policy, CompactBytes: 1 << 40}
		}
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", name, callers), func(b *testing.B) {
				o := opts
				if o.Dir != "" {
					o.Dir = b.TempDir()
				}
				e := open(b, o)
				var mu sync.Mutex
				var slowest time.Duration
				b.ReportAllocs()
				b.SetParallelism(max(1, callers/2))
				body := func(next func() bool) {
					s := e.Session()
					args := split("SET key:0000 0123456789abcdef")
					var out []byte
					worst := time.Duration(0)
					for n := 0; next(); n++ {
						args[1] = fmt.Appendf(args[1][:0], "key:%d", n&8191)
						start := time.Now()
						out, _ = s.Do(out[:0], args)
						worst = max(worst, time.Since(start))
					}
					mu.Lock()
					slowest = max(slowest, worst)
					mu.Unlock()
				}
				if callers == 1 {
					body(b.Loop)
				} else {
					b.RunParallel(func(pb *testing.PB) { body(pb.Next) })
				}
				b.ReportMetric(float64(slowest.Milliseconds()), "ms-worst")
			})
		}
	}
}
