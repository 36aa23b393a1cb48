// Package latency measures how long commands take, many at a time: the clock is read once
// for what comes together, and not for each command.
package latency

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// A Time is a reading of the monotonic clock, from [Now].
type Time int64

var (
	began = time.Now()
	last  atomic.Int64
)

// Now reads the clock.
func Now() Time {
	t := int64(time.Since(began))
	last.Store(t)
	return Time(t)
}

// Last returns the latest result of Now, of any goroutine. It is cheaper than Now. Soon after
// a read of a socket it is nearly as exact.
func Last() Time { return Time(last.Load()) }

// Bounds are the upper bounds of the buckets of a [Histogram].
var Bounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// The fine buckets are a native histogram of Prometheus with this schema: eight for each power of two,
// so each bound is 1.09 times the bound before it.
const (
	Schema = 3
	// FirstFine is the index that Prometheus gives the first fine bucket.
	FirstFine = -159
	// Shortest is the zero bucket: 2^-20 seconds, about a microsecond.
	Shortest = 1.0 / (1 << 20)
	// fine is the number of fine buckets. The last has all durations above about an hour.
	fine = 32 << Schema
)

// fineBounds are the bounds between 1/2 and 1.
var fineBounds = func() (bounds [1 << Schema]float64) {
	for i := range bounds {
		bounds[i] = math.Exp2(float64(i)/(1<<Schema) - 1)
	}
	return bounds
}()

// A Histogram counts durations. It is guarded by its owner.
type Histogram struct {
	// Counts has, for each bound, the durations up to it and above the bound before it.
	// The last element counts the durations above all bounds.
	Counts [len(Bounds) + 1]uint64
	// Zero counts the durations up to Shortest, and Fine the others by fine bucket.
	Zero uint64
	Fine [fine]uint64
	Sum  time.Duration
}

// Observe counts n of the same duration.
func (h *Histogram) Observe(d time.Duration, n uint64) {
	h.Counts[bucket(d)] += n
	if i := fineBucket(d); i >= 0 {
		h.Fine[i] += n
	} else {
		h.Zero += n
	}
	h.Sum += d * time.Duration(n) //nolint:gosec // a number of commands
}

// Count returns how many durations were counted.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// fineBucket returns the fine bucket of d, or -1 for the zero bucket.
func fineBucket(d time.Duration) int {
	s := d.Seconds()
	if s <= Shortest {
		return -1
	}
	fraction, exponent := math.Frexp(s)
	i, _ := slices.BinarySearch(fineBounds[:], fraction)
	return min(i+(exponent-1)<<Schema-FirstFine, fine-1)
}

func bucket(d time.Duration) int {
	i := 0
	for i < len(Bounds) && d > Bounds[i] {
		i++
	}
	return i
}

// Add adds what another has counted.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other.Counts {
		h.Counts[i] += n
	}
	for i, n := range other.Fine {
		h.Fine[i] += n
	}
	h.Zero += other.Zero
	h.Sum += other.Sum
}

// A Shared histogram may be used by many goroutines at once. Goroutines that use it much should have one
// each, and add them up by [Shared.AddTo].
type Shared struct {
	counts [len(Bounds) + 1]atomic.Uint64
	zero   atomic.Uint64
	fine   [fine]atomic.Uint64
	sum    atomic.Int64
}

// Observe is that of [Histogram].
func (s *Shared) Observe(d time.Duration, n uint64) {
	s.counts[bucket(d)].Add(n)
	if i := fineBucket(d); i >= 0 {
		s.fine[i].Add(n)
	} else {
		s.zero.Add(n)
	}
	s.sum.Add(int64(d) * int64(n)) //nolint:gosec // a number of commands
}

// AddTo adds what has been counted to h.
func (s *Shared) AddTo(h *Histogram) {
	for i := range s.counts {
		h.Counts[i] += s.counts[i].Load()
	}
	for i := range s.fine {
		h.Fine[i] += s.fine[i].Load()
	}
	h.Zero += s.zero.Load()
	h.Sum += time.Duration(s.sum.Load())
}

// A Meter knows since when commands are on their way, which are numbered and end in the
// order in which they began. It is guarded by its owner. The zero value is ready.
type Meter struct {
	marks []mark
	first int    // of marks
	begun uint64 // commands that have begun
	done  uint64 // and ended
}

// A mark says that commands of a kind began together.
type mark struct {
	upto uint64 // of all that ever began
	at   Time
	kind uint8
}

// maxMarks bounds the memory of a Meter.
const maxMarks = 256

// Begin notes that all commands up to the number upto have begun, the new ones at a time and of a kind. Beyond
// 256 groups under way, new commands count as begun with the last group.
func (m *Meter) Begin(upto uint64, at Time, kind uint8) {
	if upto <= m.begun {
		return
	}
	m.begun = upto
	n := len(m.marks)
	switch {
	case n > m.first && (m.marks[n-1].at == at && m.marks[n-1].kind == kind || n-m.first == maxMarks):
		m.marks[n-1].upto = upto
	case m.first > maxMarks/2:
		m.marks = append(m.marks[:0], m.marks[m.first:]...)
		m.first = 0
		fallthrough
	default:
		m.marks = append(m.marks, mark{upto, at, kind})
	}
}

// End notes that all commands up to a number have ended. It calls observe for each group of commands that
// began together. A command that has not begun yet ends with the next End.
func (m *Meter) End(upto uint64, now Time, observe func(kind uint8, d time.Duration, n uint64)) {
	for m.done < upto && m.first < len(m.marks) {
		k := m.marks[m.first]
		end := min(upto, k.upto)
		if end > m.done {
			observe(k.kind, time.Duration(max(0, now-k.at)), end-m.done)
			m.done = end
		}
		if end == k.upto {
			m.first++
		}
	}
	if m.first == len(m.marks) {
		m.marks, m.first = m.marks[:0], 0
	}
}
