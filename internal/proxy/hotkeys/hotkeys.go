// Package hotkeys finds the keys with the most requests at present, in bounded memory and at
// a cost of about a nanosecond a key.
//
//	if sampler.Next() {
//		sketch.Add(key, time.Now())
//	}
//
// Each reader has a [Sampler] of its own, which takes one key in [Every] at random. So short
// connections count as much as long ones, and a program that requests keys in a fixed order
// isn't favoured. The samples go to a [Sketch]: the Space-Saving algorithm (Metwally, Agrawal,
// El Abbadi, 2005) with [Size] counters, where a sample counts half when it is [HalfLife] old.
//
// A rate has two errors. One is chance: a standard deviation is about 3/√r of a rate of r a
// second, 30% at 100 a second and 3% at 10,000. The other comes from having more keys than
// counters: [Key.Error] bounds it, and it is at most one part in Size of all requests. Apart
// from chance, every key with a higher rate than that is reported.
package hotkeys

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// Every is the average number of keys for each sample.
	Every = 256
	// Size is how many keys a Sketch counts at once.
	Size = 256
	// HalfLife is when a sample counts half as much as a new one.
	HalfLife = 10 * time.Second
	// MaxKey is the length in bytes of the longest key that is counted.
	MaxKey = 1 << 10
)

// A Sampler chooses keys. It is for one goroutine at a time. The zero value is ready.
type Sampler struct {
	left  int32 // keys until the one that is taken
	begun bool
}

// Next reports whether to pass a key to [Sketch.Add]. Call it once for each key.
func (s *Sampler) Next() bool {
	s.left--
	return s.left <= 0 && s.take()
}

// take reports whether to take the key, and sets the number of keys to skip.
func (s *Sampler) take() bool {
	if !s.begun {
		s.begun = true
		if s.left = gap(); s.left > 1 {
			s.left--
			return false
		}
	}
	s.left = gap()
	return true
}

// perGap is what makes exponential numbers geometric ones.
var perGap = -1 / math.Log1p(-1.0/Every)

// gap returns after how many keys the next is taken, so that each is taken with the same
// probability, whatever was before it.
func gap() int32 { return 1 + int32(rand.ExpFloat64()*perGap) } //nolint:gosec // chance

// A Key is one that is asked for.
type Key struct {
	Key string
	// PerSecond is how often it is asked for, at least, but for chance.
	PerSecond float64
	// Error is how much more it may be.
	Error float64
}

// A Sketch counts samples. Its methods may be called by many goroutines at once.
type Sketch struct {
	mu       sync.Mutex
	started  time.Time
	epoch    time.Time // when a sample counts 1; it counts more later, instead of others less
	counters map[string]*counter
	least    counterHeap
}

// A counter is that of a key. It has counted too much by over at most: what the key had
// whose place it took.
type counter struct {
	key         string
	count, over float64
	at          int // in least
}

// New returns a Sketch that has counted nothing.
func New(now time.Time) *Sketch {
	return &Sketch{started: now, epoch: now, counters: make(map[string]*counter, Size)}
}

// maxAge is how many half-lives an epoch lasts, far from the largest float64.
const maxAge = 256

// Add counts a key that a [Sampler] has chosen, at a time not before that of the last.
// A key that is longer than MaxKey is not counted.
func (s *Sketch) Add(key []byte, now time.Time) {
	if len(key) > MaxKey {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	weight := math.Exp2(s.age(now))
	if weight > 1<<maxAge {
		for _, c := range s.least {
			c.count /= weight
			c.over /= weight
		}
		s.epoch, weight = now, 1
	}
	c := s.counters[string(key)]
	switch {
	case c != nil:
	case len(s.least) < Size:
		c = &counter{key: string(key)}
		s.counters[c.key] = c
		heap.Push(&s.least, c)
	default:
		c = s.least[0]
		delete(s.counters, c.key)
		c.key, c.over = string(key), c.count
		s.counters[c.key] = c
	}
	c.count += weight
	heap.Fix(&s.least, c.at)
}

// age is how many half-lives the epoch is ago.
func (s *Sketch) age(now time.Time) float64 { return float64(now.Sub(s.epoch)) / float64(HalfLife) }

// Top returns at most n keys, the most requested first.
func (s *Sketch) Top(n int, now time.Time) []Key {
	// The sum of one sample a second, each at its age.
	window := HalfLife.Seconds() / math.Ln2 * (1 - math.Exp2(-max(now.Sub(s.started), time.Second).Seconds()/HalfLife.Seconds()))
	s.mu.Lock()
	defer s.mu.Unlock()
	rate := Every / window / math.Exp2(s.age(now))
	keys := make([]Key, 0, len(s.least))
	for _, c := range s.least {
		keys = append(keys, Key{Key: c.key, PerSecond: (c.count - c.over) * rate, Error: c.over * rate})
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Key, b.Key))
	})
	return keys[:min(n, len(keys))]
}

// counterHeap has the least on top.
type counterHeap []*counter

func (h counterHeap) Len() int           { return len(h) }
func (h counterHeap) Less(i, j int) bool { return h[i].count < h[j].count }

func (h counterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements heap.Interface.
func (h *counterHeap) Push(x any) {
	c := x.(*counter) //nolint:forcetypeassert // nothing else is pushed
	c.at = len(*h)
	*h = append(*h, c)
}

// Pop implements heap.Interface. Nothing is ever popped.
func (h *counterHeap) Pop() any { panic("hotkeys: a counter is never taken out") }
