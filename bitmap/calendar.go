package bitmap

import (
	"fmt"
	"iter"
	"math/bits"
	"strings"
	"time"
)

// A Calendar has the marks of a calendar as they were when it was read. It does not change, and its
// methods send nothing: a page that shows the streak, the month and the total costs one round trip.
// The zero value has no marks.
type Calendar struct {
	base Day    // the day of the first bit
	bits string // as SETBIT numbers them: the first day is the highest bit of the first byte
}

// Marked reports whether a day is marked.
func (c Calendar) Marked(d Day) bool {
	at := int(d) - int(c.base)
	return at >= 0 && at < 8*len(c.bits) && c.bits[at/8]&(0x80>>(at%8)) != 0
}

// Count returns how many days are marked from one day to another, both included. It returns 0 when
// to is before from.
func (c Calendar) Count(from, to Day) (n int) {
	first := max(int(from)-int(c.base), 0)
	last := min(int(to)-int(c.base), 8*len(c.bits)-1)
	if first > last {
		return 0
	}
	for i := first / 8; i <= last/8; i++ {
		b := c.bits[i]
		if i == first/8 {
			b &= 0xff >> (first % 8)
		}
		if i == last/8 {
			b &= 0xff << (7 - last%8)
		}
		n += bits.OnesCount8(b)
	}
	return n
}

// Total returns how many days are marked.
func (c Calendar) Total() int { return c.Count(MinDay, MaxDay) }

// All iterates over the marked days, the earliest first.
func (c Calendar) All() iter.Seq[Day] {
	return func(yield func(Day) bool) {
		for i := range len(c.bits) {
			for b := c.bits[i]; b != 0; {
				zeros := bits.LeadingZeros8(b)
				if b &^= 0x80 >> zeros; !yield(c.base + Day(8*i+zeros)) {
					return
				}
			}
		}
	}
}

// First returns the first marked day, and false when no day is marked.
func (c Calendar) First() (Day, bool) {
	for d := range c.All() {
		return d, true
	}
	return 0, false
}

// Last returns the last marked day, and false when no day is marked.
func (c Calendar) Last() (Day, bool) {
	for i := len(c.bits) - 1; i >= 0; i-- {
		if b := c.bits[i]; b != 0 {
			return c.base + Day(8*i+7-bits.TrailingZeros8(b)), true
		}
	}
	return 0, false
}

// A Streak is a run of marked days. Days is 0 when there is none.
type Streak struct {
	From Day
	Days int
}

// To returns the last day of the streak. For a streak of no days it returns the day before From.
func (s Streak) To() Day { return s.From + Day(s.Days) - 1 }

// Streak returns the current streak: the marked days in a row that end today, or yesterday if today
// is not marked, because the day is not over yet.
func (c Calendar) Streak(today Day) Streak {
	last := today
	if !c.Marked(today) {
		last--
	}
	first := last + 1
	for c.Marked(first - 1) {
		first--
	}
	return Streak{From: first, Days: int(last - first + 1)}
}

// Longest returns the longest streak, the latest one if there are several.
func (c Calendar) Longest() (longest Streak) {
	var s Streak
	for d := range c.All() {
		if d != s.From+Day(s.Days) {
			s = Streak{From: d}
		}
		if s.Days++; s.Days >= longest.Days {
			longest = s
		}
	}
	return longest
}

// A Month has the marks of one month.
type Month struct {
	Year  int
	Month time.Month
	// Marks has bit n set when day n of the month is marked, from 1 to 31.
	Marks uint32
}

// Month returns the marks of a month. As with [Date], month 13 is January.
func (c Calendar) Month(year int, month time.Month) (m Month) {
	first := Date(year, month, 1)
	m.Year, m.Month, _ = first.Date()
	for i := range m.Days() {
		if c.Marked(first + Day(i)) {
			m.Marks |= 1 << (i + 1)
		}
	}
	return m
}

// Days returns how many days the month has.
func (m Month) Days() int { return int(Date(m.Year, m.Month+1, 1) - Date(m.Year, m.Month, 1)) }

// Count returns how many days are marked.
func (m Month) Count() int { return bits.OnesCount32(m.Marks) }

// Marked reports whether day n of the month is marked.
func (m Month) Marked(n int) bool { return n >= 1 && n <= 31 && m.Marks&(1<<n) != 0 }

// String returns Picture with weeks that begin on Monday.
func (m Month) String() string { return m.Picture(time.Monday) }

// Picture returns the month as a wall calendar shows it: a week a line, marked days in brackets.
// Weeks begin on the given day.
func (m Month) Picture(first time.Weekday) string {
	var b strings.Builder
	title := fmt.Sprintf("%v %d", m.Month, m.Year)
	fmt.Fprintf(&b, "%*s\n", (27+len(title))/2, title)
	week := func(n int) time.Weekday { return (first + time.Weekday(n)) % 7 }
	for i := range 7 {
		fmt.Fprintf(&b, " %s ", week(i).String()[:2])
	}
	lines := []string{strings.TrimRight(b.String(), " ")}
	b.Reset()
	column := int(Date(m.Year, m.Month, 1).Weekday()-first+7) % 7
	b.WriteString(strings.Repeat("    ", column))
	for d := 1; d <= m.Days(); d++ {
		if m.Marked(d) {
			fmt.Fprintf(&b, "%4s", fmt.Sprintf("[%d]", d))
		} else {
			fmt.Fprintf(&b, "%3d ", d)
		}
		if column = (column + 1) % 7; column == 0 || d == m.Days() {
			lines = append(lines, strings.TrimRight(b.String(), " "))
			b.Reset()
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
