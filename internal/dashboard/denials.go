package dashboard

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// deniedKept is how many names each point of the history of denials has: the most denied ones. deniedNow
	// bounds the names of the point that is being made.
	deniedKept = 20
	deniedNow  = 4000
	// deniedShown is how many names a chart shows.
	deniedShown = 5
)

// A limitName is a limit, or a key of CL.THROTTLE.
type limitName struct {
	kind kind
	name string
}

// denials is the history of the most denied names. It is apart from [history], whose series stay, while names
// come and go.
type denials struct {
	mu    sync.Mutex
	last  map[limitName]uint64 // denied so far, of the last sample
	rings [len(spans)]deniedRing
}

// A deniedRing has the latest points of one range.
type deniedRing struct {
	points []deniedPoint // the oldest first
	sum    map[limitName]uint64
	from   time.Time // of the point that is being made
}

// A deniedPoint is how often names were denied in the time that ended at a time.
type deniedPoint struct {
	at time.Time
	of time.Duration
	n  map[limitName]uint64
}

// add adds a sample.
func (d *denials) add(at time.Time, c LimitCounts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, grown := make(map[limitName]uint64), map[limitName]uint64{}
	count := func(k kind, names map[string]LimitCount) {
		for name, n := range names {
			if n.Denied == 0 {
				continue
			}
			of := limitName{k, name}
			now[of] = n.Denied
			was := d.last[of]
			if n.Denied < was {
				was = 0 // it was forgotten meanwhile, and is counted again
			}
			if n.Denied > was {
				grown[of] = n.Denied - was
			}
		}
	}
	count(kindLimit, c.Names)
	count(kindThrottle, c.Keys)
	first := d.last == nil
	d.last = now
	for i := range d.rings {
		r := &d.rings[i]
		if first {
			r.from = at
			continue
		}
		r.add(at, spans[i], grown)
	}
}

func (r *deniedRing) add(at time.Time, s span, grown map[limitName]uint64) {
	if r.sum == nil {
		r.sum = map[limitName]uint64{}
	}
	for of, n := range grown {
		r.sum[of] += n
	}
	if len(r.sum) > deniedNow {
		keepLargest(r.sum, deniedNow/2)
	}
	took := at.Sub(r.from)
	if took < s.step-pollEvery/2 {
		return
	}
	keepLargest(r.sum, deniedKept)
	if len(r.points) == s.size {
		r.points = slices.Delete(r.points, 0, 1)
	}
	r.points = append(r.points, deniedPoint{at, took, r.sum})
	r.sum, r.from = nil, at
}

// keepLargest removes all but n names.
func keepLargest(sum map[limitName]uint64, n int) {
	if len(sum) <= n {
		return
	}
	for _, of := range ranked(sum)[n:] {
		delete(sum, of)
	}
}

// ranked returns the names, the ones with the largest number first.
func ranked(sum map[limitName]uint64) []limitName {
	return slices.SortedFunc(maps.Keys(sum), func(a, b limitName) int {
		return cmp.Or(cmp.Compare(sum[b], sum[a]), cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
	})
}

// A deniedSeries is how often one name was denied in a second, over time.
type deniedSeries struct {
	Name  string `json:"name"`
	Ref   string `json:"ref"`
	Kind  string `json:"kind"`  // limit or throttle
	Total uint64 `json:"total"` // in the whole range
	series
}

// series returns the most denied names in a range that wanted accepts.
func (d *denials) series(of string, wanted func(limitName) bool) []deniedSeries {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := ranges[of]
	points := d.rings[i].points
	oldest := time.Now().Add(-spans[i].step * time.Duration(spans[i].size+1))
	for len(points) > 0 && points[0].at.Before(oldest) {
		points = points[1:]
	}
	totals := map[limitName]uint64{}
	for _, p := range points {
		for name, n := range p.n {
			totals[name] += n
		}
	}
	list := []deniedSeries{}
	for _, name := range ranked(totals) {
		if !wanted(name) {
			continue
		}
		s := deniedSeries{Name: printable(name.name), Ref: ref(name.name), Kind: limitKinds[name.kind], Total: totals[name]}
		for _, p := range points {
			s.T = append(s.T, p.at.UnixMilli())
			s.V = append(s.V, math.Round(float64(p.n[name])/p.of.Seconds()*1000)/1000)
		}
		if list = append(list, s); len(list) == deniedShown {
			break
		}
	}
	return list
}
