package latency

import (
	"math"
	"slices"
	"testing"
	"time"
)

// TestHistogram: a duration is counted up to the first bound that it doesn't exceed.
func TestHistogram(t *testing.T) {
	var h, sum Histogram
	var s Shared
	for i, b := range Bounds {
		h.Observe(b, 2)
		s.Observe(b+1, 1)
		if h.Counts[i] != 2 || s.counts[i+1].Load() != 1 {
			t.Errorf("%v is counted in %v, and a little more in %v", b, h.Counts, s.counts[i+1].Load())
		}
	}
	sum.Add(&h)
	s.AddTo(&sum)
	want := [len(Bounds) + 1]uint64{}
	total := time.Duration(0)
	for i, b := range Bounds {
		want[i] += 2
		want[i+1]++
		total += 3*b + 1
	}
	if sum.Counts != want || sum.Sum != total {
		t.Errorf("%v, %v; want %v, %v", sum.Counts, sum.Sum, want, total)
	}
	if !slices.IsSorted(Bounds[:]) {
		t.Error("the bounds are not sorted")
	}
}

// TestMeter: commands that began together may end at different times, and commands that began at
// different times may end together.
func TestMeter(t *testing.T) {
	var m Meter
	var got []uint64
	end := func(upto uint64, now Time, want ...uint64) {
		t.Helper()
		got = nil
		m.End(upto, now, func(_ uint8, d time.Duration, n uint64) { got = append(got, uint64(d), n) })
		if !slices.Equal(got, want) {
			t.Errorf("End(%d, %d): %v, want %v", upto, now, got, want)
		}
	}
	m.Begin(3, 10, 0)
	m.Begin(5, 10, 0)
	m.Begin(6, 20, 0)
	end(2, 30, 20, 2)
	end(2, 31)
	m.Begin(6, 31, 0) // as before
	end(6, 40, 30, 3, 20, 1)
	end(8, 50) // nobody has said when they began
	m.Begin(9, 45, 0)
	end(8, 50, 5, 2)
	end(9, 60, 15, 1)

	for i := range uint64(10 * maxMarks) {
		m.Begin(10+i, Time(1000+i), 0)
	}
	if n := len(m.marks) - m.first; n != maxMarks {
		t.Errorf("%d marks", n)
	}
	total := uint64(0)
	m.End(9+10*maxMarks, 100_000, func(_ uint8, _ time.Duration, n uint64) { total += n })
	if total != 10*maxMarks || len(m.marks) != 0 {
		t.Errorf("%d commands, %d marks", total, len(m.marks))
	}
	for i := range uint64(10 * maxMarks) { // always some under way
		m.Begin(10+10*maxMarks+i, Time(200_000+i), 0)
		m.End(8+10*maxMarks+i, Time(200_000+i), func(uint8, time.Duration, uint64) {})
	}
	if len(m.marks) > maxMarks {
		t.Errorf("%d marks, of which %d are over", len(m.marks), m.first)
	}
}

// TestMeterKinds: commands of two kinds that began together end apart, each in its kind.
func TestMeterKinds(t *testing.T) {
	var m Meter
	var got []uint64
	m.Begin(3, 10, 0)
	m.Begin(4, 10, 2)
	m.Begin(6, 10, 0)
	m.End(6, 15, func(kind uint8, d time.Duration, n uint64) { got = append(got, uint64(kind), uint64(d), n) })
	if want := []uint64{0, 5, 3, 2, 5, 1, 0, 5, 2}; !slices.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
}

// TestFineBuckets: a fine bucket has the durations that a native histogram of Prometheus has there: above
// 2^((i-1)/8) seconds, up to 2^(i/8).
func TestFineBuckets(t *testing.T) {
	for _, d := range []time.Duration{1, 953, 954, 1000, 123_456, time.Millisecond, time.Second / 2, time.Second, time.Second + 1, 100 * time.Second, 2 * time.Hour} {
		var h Histogram
		var s Shared
		h.Observe(d, 3)
		s.Observe(d, 3)
		s.AddTo(&h)
		if d.Seconds() <= Shortest {
			if h.Zero != 6 {
				t.Errorf("%v is not in the zero bucket", d)
			}
			continue
		}
		at := slices.Index(h.Fine[:], 6)
		if at < 0 {
			t.Errorf("%v is in no bucket", d)
			continue
		}
		upper := math.Exp2(float64(FirstFine+at) / 8)
		lower := math.Exp2(float64(FirstFine+at-1) / 8)
		if v := d.Seconds(); v <= lower || v > upper && at < len(h.Fine)-1 {
			t.Errorf("%v is in the bucket from %v to %v s", d, lower, upper)
		}
		if h.Count() != 6 {
			t.Errorf("%d durations of 6", h.Count())
		}
	}
}

// TestLast: it is what Now has said.
func TestLast(t *testing.T) {
	a := Now()
	if b := Last(); b < a {
		t.Errorf("last %d, after %d", b, a)
	}
	if b := Now(); b < a {
		t.Errorf("%d after %d", b, a)
	}
}

func BenchmarkMeter(b *testing.B) {
	var m Meter
	var h Histogram
	i := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		i += 16
		m.Begin(i, Time(i), 0)
		m.End(i-8, Time(i+100_000), func(_ uint8, d time.Duration, n uint64) { h.Observe(d, n) })
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
