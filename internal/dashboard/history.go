package dashboard

import (
	"maps"
	"math"
	"sync"
	"time"
)

// A span is a range of a chart: so many points, one for each step.
type span struct {
	step time.Duration
	size int
}

var spans = [...]span{{time.Second, 60}, {30 * time.Second, 120}, {10 * time.Minute, 144}}

// The ranges of a chart, by the index of their span.
var ranges = map[string]int{"minute": 0, "hour": 1, "day": 2}

// A ring has the latest values of all series of a source, one point for each step.
type ring struct {
	span

	points []point // at most size, the oldest first
	sum    map[string]float64
	n      map[string]int
	from   time.Time // of the point that is being made
}

// A point is a time and the values then.
type point struct {
	at     time.Time
	values map[string]float64
}

// history has the rings of one source.
type history struct {
	mu    sync.Mutex
	rings [len(spans)]ring
	prev  point // the last sample, whose counters grow
}

func newHistory() *history {
	h := &history{}
	for i, s := range spans {
		h.rings[i] = ring{span: s, sum: map[string]float64{}, n: map[string]int{}}
	}
	return h
}

// add adds a sample: gauges as they are, and counters as their growth for each second since the sample
// before. A counter that shrank was reset, and gives no value.
func (h *history) add(at time.Time, gauges, counters map[string]float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	passed := at.Sub(h.prev.at).Seconds()
	if h.prev.values != nil && passed < 0.1 {
		return
	}
	values := map[string]float64{}
	maps.Copy(values, gauges)
	for name, v := range counters {
		if was, ok := h.prev.values[name]; ok && v >= was {
			values[name] = (v - was) / passed
		}
	}
	h.prev = point{at, counters}
	for i := range h.rings {
		h.rings[i].add(at, values)
	}
}

func (r *ring) add(at time.Time, values map[string]float64) {
	if r.from.IsZero() {
		r.from = at
	}
	for name, v := range values {
		r.sum[name] += v
		r.n[name]++
	}
	if at.Sub(r.from) < r.step-pollEvery/2 { // samples may be a little early
		return
	}
	mean := make(map[string]float64, len(r.sum))
	for name, sum := range r.sum {
		mean[name] = sum / float64(r.n[name])
	}
	clear(r.sum)
	clear(r.n)
	r.from = at
	if len(r.points) == r.size {
		copy(r.points, r.points[1:])
		r.points = r.points[:r.size-1]
	}
	r.points = append(r.points, point{at, mean})
}

// A series is the values of one thing, and when they were: ms since 1970.
type series struct {
	T []int64   `json:"t"`
	V []float64 `json:"v"`
}

// series returns all series of a range.
func (h *history) series(of string) map[string]*series {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &h.rings[ranges[of]]
	all := map[string]*series{}
	oldest := time.Now().Add(-r.step * time.Duration(r.size+1))
	for _, p := range r.points {
		if p.at.Before(oldest) {
			continue
		}
		for name, v := range p.values {
			s := all[name]
			if s == nil {
				s = &series{}
				all[name] = s
			}
			s.T = append(s.T, p.at.UnixMilli())
			s.V = append(s.V, math.Round(v*1000)/1000)
		}
	}
	return all
}

// latest returns the latest value of one series.
func (h *history) latest(name string) (v float64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	points := h.rings[0].points
	if len(points) == 0 {
		return 0, false
	}
	v, ok = points[len(points)-1].values[name]
	return v, ok
}
