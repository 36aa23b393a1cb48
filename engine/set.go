package engine

import (
	"math/rand/v2"
	"slices"
	"strconv"
)

// A set is a sorted slice of integers while it has nothing but integers and is
// small, and a dict otherwise.
type set struct {
	limits *limits
	ints   []int64
	big    *dict[struct{}]
	bytes  int64 // of the members of big
}

func (c *call) newSet() *object { return &object{kindSet, &set{limits: c.e.config.limits.Load()}} }

func (s *set) len() int {
	if s.big != nil {
		return s.big.len()
	}
	return len(s.ints)
}

func (s *set) has(m []byte) bool {
	if s.big != nil {
		return s.big.get(m) != nil
	}
	n, ok := parseInt(m)
	if !ok {
		return false
	}
	_, found := slices.BinarySearch(s.ints, n)
	return found
}

func (s *set) add(m []byte) bool {
	if s.big == nil {
		if n, ok := parseInt(m); ok {
			i, found := slices.BinarySearch(s.ints, n)
			if found {
				return false
			}
			if len(s.ints) < s.limits.setEntries {
				s.ints = slices.Insert(s.ints, i, n)
				return true
			}
		}
		s.convert()
	}
	_, added := s.big.add(m)
	if added {
		s.bytes += allocated(len(m))
	}
	return added
}

func (s *set) convert() {
	s.big = &dict[struct{}]{}
	var buf [24]byte
	for _, n := range s.ints {
		e, _ := s.big.add(appendInt(buf[:0], n))
		s.bytes += allocated(len(e.key))
	}
	s.ints = nil
}

func (s *set) remove(m []byte) bool {
	if s.big != nil {
		if s.big.remove(m) == nil {
			return false
		}
		s.bytes -= allocated(len(m))
		return true
	}
	n, ok := parseInt(m)
	if !ok {
		return false
	}
	i, found := slices.BinarySearch(s.ints, n)
	if found {
		s.ints = slices.Delete(s.ints, i, i+1)
	}
	return found
}

// each calls f for every member until it returns false. The bytes are valid
// during the call only.
func (s *set) each(f func(m []byte) bool) {
	if s.big != nil {
		s.big.each(func(e *entry[struct{}]) bool { return f(view(e.key)) })
		return
	}
	var buf [24]byte
	for _, n := range s.ints {
		if !f(appendInt(buf[:0], n)) {
			return
		}
	}
}

// random returns a member, each with the same probability.
func (s *set) random() string {
	if s.big != nil {
		return s.big.random().key
	}
	return strconv.FormatInt(s.ints[rand.IntN(len(s.ints))], 10)
}

// sample calls f for n different members, every choice as likely.
func (s *set) sample(n int, f func(m []byte)) {
	left := s.len()
	s.each(func(m []byte) bool {
		if rand.IntN(left) < n {
			f(m)
			n--
		}
		left--
		return n > 0
	})
}

func (s *set) clone() *set {
	c := &set{limits: s.limits, ints: slices.Clone(s.ints), bytes: s.bytes}
	if s.big != nil {
		c.big = &dict[struct{}]{}
		s.each(func(m []byte) bool { c.big.add(m); return true })
	}
	return c
}
