package bitmap

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/redoubt-go/redoubt"
)

// FuzzCalendar reads any bytes as a calendar. They are refused, or what the methods say agrees.
func FuzzCalendar(f *testing.F) {
	f.Add("")
	f.Add("\x00\x00\x00\x08\x80\x01")
	f.Add("\x00\x37\xaf\x38\xff\xff\xff")
	f.Add(string(binary.BigEndian.AppendUint32(nil, uint32(MaxDay-MinDay)&^7)) + "\xff\xff") // beyond the last day
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCalendar("c", redoubt.Reply{Val: text})
		if err != nil {
			return
		}
		days := slices.Collect(c.All())
		if len(days) != c.Total() {
			t.Fatalf("%q has %d days, and a total of %d", text, len(days), c.Total())
		}
		if len(days) == 0 {
			return
		}
		first, _ := c.First()
		last, _ := c.Last()
		if first != days[0] || last != days[len(days)-1] || first < MinDay || last > MaxDay {
			t.Errorf("%q begins on %v and ends on %v; its days are %v to %v", text, first, last, days[0], days[len(days)-1])
		}
		if s := c.Streak(last); s.Days < 1 || s.Days > c.Longest().Days {
			t.Errorf("%q has a streak of %d days at its end, and a longest one of %d", text, s.Days, c.Longest().Days)
		}
	})
}
