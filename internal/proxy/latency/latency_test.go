package latency

import (
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
		m.End(upto, now, func(d time.Duration, n uint64) { got = append(got, uint64(d), n) })
		if !slices.Equal(got, want) {
			t.Errorf("End(%d, %d): %v, want %v", upto, now, got, want)
		}
	}
	m.Begin(3, 10)
	m.Begin(5, 10)
	m.Begin(6, 20)
	end(2, 30, 20, 2)
	end(2, 31)
	m.Begin(6, 31) // as before
	end(6, 40, 30, 3, 20, 1)
	end(8, 50) // nobody has said when they began
	m.Begin(9, 45)
	end(8, 50, 5, 2)
	end(9, 60, 15, 1)

	for i := range uint64(10 * maxMarks) {
		m.Begin(10+i, Time(1000+i))
	}
	if n := len(m.marks) - m.first; n != maxMarks {
		t.Errorf("%d marks", n)
	}
	total := uint64(0)
	m.End(9+10*maxMarks, 100_000, func(_ time.Duration, n uint64) { total += n })
	if total != 10*maxMarks || len(m.marks) != 0 {
		t.Errorf("%d commands, %d marks", total, len(m.marks))
	}
	for i := range uint64(10 * maxMarks) { // always some under way
		m.Begin(10+10*maxMarks+i, Time(200_000+i))
		m.End(8+10*maxMarks+i, Time(200_000+i), func(time.Duration, uint64) {})
	}
	if len(m.marks) > maxMarks {
		t.Errorf("%d marks, of which %d are over", len(m.marks), m.first)
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
		m.Begin(i, Time(i))
		m.End(i-8, Time(i+100_000), h.Observe)
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
