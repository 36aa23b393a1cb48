package scan

import "hash/maphash"

// A seen remembers the last texts by hashes of 128 bits: among 10^9 keys, two have the same hash with a
// probability of 10^-21. It forgets by halves: new texts go to the younger map, which becomes the older
// one when it is full. Rejected: a ring beside one map, which forgets exactly and takes as much memory.
type seen struct {
	window    int // 0: nothing is remembered
	young     map[fingerprint]struct{}
	old       map[fingerprint]struct{}
	one, two  maphash.Seed
	tentative []fingerprint // added since the last keep
}

type fingerprint [2]uint64

func newSeen(window int) *seen {
	return &seen{window: window, young: map[fingerprint]struct{}{}, one: maphash.MakeSeed(), two: maphash.MakeSeed()}
}

// add reports whether text is new, and remembers it.
func (s *seen) add(text string) bool {
	if s.window == 0 {
		return true
	}
	f := fingerprint{maphash.String(s.one, text), maphash.String(s.two, text)}
	if _, ok := s.young[f]; ok {
		return false
	}
	if _, ok := s.old[f]; ok {
		return false
	}
	if len(s.young) >= s.window {
		s.young, s.old = map[fingerprint]struct{}{}, s.young
	}
	s.young[f] = struct{}{}
	s.tentative = append(s.tentative, f)
	return true
}

// keep makes the texts that were added since the last keep permanent.
func (s *seen) keep() { s.tentative = s.tentative[:0] }

// drop forgets the texts that were added since the last keep.
func (s *seen) drop() {
	for _, f := range s.tentative {
		delete(s.young, f)
		delete(s.old, f)
	}
	s.tentative = s.tentative[:0]
}

// dropLast forgets the text that was added last.
func (s *seen) dropLast() {
	if n := len(s.tentative); n > 0 {
		last := s.tentative[n-1]
		s.tentative = s.tentative[:n-1]
		delete(s.young, last)
	}
}
