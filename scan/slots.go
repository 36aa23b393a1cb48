package scan

import (
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"

	"github.com/redoubt-go/redoubt/internal/keyslot"
)

// slots is a set of hash slots.
type slots [keyslot.Count / 64]uint64

func (s *slots) add(slot int)      { s[slot/64] |= 1 << (slot % 64) }
func (s *slots) remove(slot int)   { s[slot/64] &^= 1 << (slot % 64) }
func (s *slots) has(slot int) bool { return s[slot/64]&(1<<(slot%64)) != 0 }

func (s *slots) addAll(other *slots) {
	for i := range s {
		s[i] |= other[i]
	}
}

func (s *slots) removeAll(other *slots) {
	for i := range s {
		s[i] &^= other[i]
	}
}

func (s *slots) len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// all iterates over the slots of s in order.
func (s *slots) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range s {
			for ; word != 0; word &= word - 1 {
				if !yield(i*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

// String writes s as ranges: "0-5460,7000".
func (s *slots) String() string {
	var b strings.Builder
	for first := 0; first < keyslot.Count; first++ {
		if !s.has(first) {
			continue
		}
		last := first
		for last+1 < keyslot.Count && s.has(last+1) {
			last++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(first))
		if last > first {
			b.WriteString("-" + strconv.Itoa(last))
		}
		first = last
	}
	return b.String()
}

// parse adds the ranges that String writes.
func (s *slots) parse(text string) error {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		a, b, many := strings.Cut(part, "-")
		if !many {
			b = a
		}
		first, err := strconv.Atoi(a)
		last, err2 := strconv.Atoi(b)
		if err != nil || err2 != nil || first < 0 || last >= keyslot.Count || first > last {
			return fmt.Errorf("%q are no slots", part)
		}
		for slot := first; slot <= last; slot++ {
			s.add(slot)
		}
	}
	return nil
}

// everySlot is all of them.
var everySlot = func() (s slots) {
	for i := range s {
		s[i] = ^uint64(0)
	}
	return s
}()
