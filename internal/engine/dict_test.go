package engine

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// TestScanThroughResizing holds SCAN's guarantee: what is there all the time
// is returned, whatever is added and removed meanwhile.
func TestScanThroughResizing(t *testing.T) {
	for _, n := range []int{0, 1, 5, 100, 3000, thorough(20000, 6000)} {
		d := &dict[int]{}
		for i := range n {
			d.add(fmt.Appendf(nil, "stay%d", i))
		}
		seen := map[string]bool{}
		cursor, step := uint64(0), 0
		for {
			cursor = d.scan(cursor, func(e *entry[int]) { seen[e.key] = true })
			if cursor == 0 {
				break
			}
			for i := range 20 { // grow, then shrink
				if key := fmt.Appendf(nil, "go%d", (step*20+i)%30000); step/1500%2 == 0 {
					d.add(key)
				} else {
					d.remove(key)
				}
			}
			step++
		}
		for i := range n {
			if !seen[fmt.Sprint("stay", i)] {
				t.Fatalf("of %d keys, stay%d was not returned", n, i)
			}
		}
	}
}

func TestRandomIsEven(t *testing.T) {
	const n, draws = 200, 200000
	// even has no chain longer than the chains that are sampled evenly.
	even := func(d *dict[int]) bool {
		for i := range d.tables[0].mask + 1 {
			length := 0
			for e := d.tables[0].head(i); e != nil; e = e.next {
				length++
			}
			if length > deepest {
				return false
			}
		}
		return !d.resize
	}
	d, r, steps := &dict[int]{}, randtest.Rand(t), randtest.Watch(t)
	for d.len() == 0 || !even(d) {
		prefix := r.Uint64()
		steps.Begin(func() string { return fmt.Sprint("fill one with prefix ", prefix) })
		d = &dict[int]{}
		for i := range n {
			d.add(fmt.Appendf(nil, "%d:%d", prefix, i))
		}
		for d.resize {
			d.step()
		}
	}
	counts := map[string]int{}
	steps.Begin(func() string { return "draw from it" })
	for range draws {
		counts[d.random().key]++
	}
	chi := 0.0
	if len(counts) != n {
		t.Errorf("%d of %d have come", len(counts), n)
	}
	for _, count := range counts {
		diff := float64(count) - draws/n
		chi += diff * diff / (draws / n)
	}
	if limit := n + 6*math.Sqrt(2*n); chi > limit {
		t.Errorf("chi-square is %.1f, want at most %.1f", chi, limit)
	}
}

// BenchmarkGrowthPause grows a hash of the engine to five million fields and
// tells how long the slowest command took.
func BenchmarkGrowthPause(b *testing.B) {
	const n = 5_000_000
	for b.Loop() {
		s := open(b, Options{}).Session()
		args := [][]byte{[]byte("HSET"), []byte("h"), nil, []byte("v")}
		var w []byte
		var worst time.Duration
		for i := range n {
			args[2] = fmt.Appendf(args[2][:0], "field:%d", i)
			start := time.Now()
			w, _ = s.Do(w[:0], args)
			worst = max(worst, time.Since(start))
		}
		b.ReportMetric(float64(worst.Microseconds()), "worst-µs")
	}
}
