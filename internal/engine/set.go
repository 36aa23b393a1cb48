package engine

import (
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// A set is a sorted array of integers while it has nothing but integers and is
// small. A small one with other members has them packed in the order of
// insertion, and is searched from end to end. A larger one is a dict.
type set struct {
	limits *limits
	packed packed // integers or words
	big    *bigSet
	few    int32 // members that are packed
	width  uint8 // bytes of an integer, 0 when there was none
	words  bool  // no integers
}

// A bigSet is a dict of members.
type bigSet struct {
	dict[struct{}]
	bytes int64 // of the members
}

// A set of words is packed up to these limits. Redis 7.2 packs up to 128 words; OBJECT ENCODING
// answers as 7.0 does.
const (
	mostWords   = 64
	longestWord = 64
)

func (c *call) newSet() *object { return &object{kindSet, &set{limits: c.e.config.limits.Load()}} }

// isInts says whether the set is in the form for integers.
func (s *set) isInts() bool { return s.big == nil && !s.words }

func (s *set) len() int {
	if s.big != nil {
		return s.big.len()
	}
	return int(s.few)
}

func (s *set) has(m []byte) bool {
	switch {
	case s.big != nil:
		return s.big.get(m) != nil
	case s.words:
		at, _ := s.packed.findWord(m)
		return at >= 0
	}
	n, ok := parseInt(m)
	if !ok {
		return false
	}
	_, found := s.search(n)
	return found
}

func (s *set) add(m []byte) bool {
	if s.isInts() {
		if n, ok := parseInt(m); ok {
			i, found := s.search(n)
			if found {
				return false
			}
			if int(s.few) < s.limits.setEntries {
				s.insert(i, n)
				return true
			}
		}
		s.convert(int(s.few) < mostWords && len(m) <= longestWord)
	}
	if s.words {
		if at, _ := s.packed.findWord(m); at >= 0 {
			return false
		}
		if s.few < mostWords && len(m) <= longestWord {
			s.packed = s.packed.putWord(m)
			s.few++
			return true
		}
		s.convert(false)
	}
	return s.big.add(m)
}

func (b *bigSet) add(m []byte) bool {
	_, added := b.dict.add(m)
	if added {
		b.bytes += sizeclass.Of(len(m))
	}
	return added
}

// convert takes the set to a form for more: of words, or of any members.
func (s *set) convert(words bool) {
	to := &set{limits: s.limits, words: words}
	if !words {
		to.big = &bigSet{}
	}
	s.each(func(m []byte) bool {
		if words {
			to.packed = to.packed.putWord(m)
		} else {
			to.big.add(m)
		}
		return true
	})
	if words {
		to.few = s.few
	}
	*s = *to
}

func (s *set) remove(m []byte) bool {
	switch {
	case s.big != nil:
		if s.big.remove(m) == nil {
			return false
		}
		s.big.bytes -= sizeclass.Of(len(m))
		return true
	case s.words:
		at, next := s.packed.findWord(m)
		if at < 0 {
			return false
		}
		s.packed = s.packed.splice(at, next, 0)
	default:
		n, ok := parseInt(m)
		if !ok {
			return false
		}
		i, found := s.search(n)
		if !found {
			return false
		}
		w := int(s.width)
		s.packed = s.packed.splice(i*w, (i+1)*w, 0)
	}
	s.few--
	return true
}

// each calls f for every member until it returns false. The bytes are valid
// during the call only.
func (s *set) each(f func(m []byte) bool) {
	switch {
	case s.big != nil:
		s.big.each(func(e *entry[struct{}]) bool { return f(view(e.key)) })
	case s.words:
		for at := 0; at < len(s.packed); {
			m, next := s.packed.word(at)
			if !f(m) {
				return
			}
			at = next
		}
	default:
		var buf [24]byte
		for i := range s.few {
			if !f(appendInt(buf[:0], s.int(int(i)))) {
				return
			}
		}
	}
}

// random returns a member, each with the same probability. It is valid until
// the set is changed.
func (s *set) random() (m string) {
	if s.big != nil {
		return s.big.random().key
	}
	left := rand.IntN(int(s.few))
	if !s.words {
		return strconv.FormatInt(s.int(left), 10)
	}
	at := 0
	for ; left > 0; left-- {
		_, at = s.packed.word(at)
	}
	word, _ := s.packed.word(at)
	return text(word)
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

// without returns a copy that lacks n members, every choice as likely, and calls f for each of
// these.
func (s *set) without(n int, work func(int), f func(m []byte)) *set {
	left, rest := s.len(), &set{limits: s.limits}
	s.each(func(m []byte) bool {
		work(2 * stepsPerMember)
		if rand.IntN(left) < n {
			f(m)
			n--
		} else {
			rest.add(m)
		}
		left--
		return true
	})
	return rest
}

func (s *set) clone(work func(int)) *set {
	c := *s
	c.packed = slices.Clone(s.packed)
	if s.big != nil {
		c.big = &bigSet{}
		s.each(func(m []byte) bool {
			work(stepsPerMember)
			c.big.add(m)
			return true
		})
	}
	return &c
}

// reserve makes a new set ready for members, if they fit. One that is empty again
// keeps its form.
func (s *set) reserve(members [][]byte) {
	if s.len() > 0 || !s.isInts() || len(members) < 2 || len(members) > mostWords {
		return
	}
	words, ints, width := 0, true, 0
	for _, m := range members {
		if len(m) > longestWord {
			return
		}
		words += lengthBytes(len(m)) + len(m)
		if n, ok := parseInt(m); ok {
			width = max(width, int(intWidth(n)))
		} else {
			ints = false
		}
	}
	if s.words = !ints; ints {
		s.width = uint8(width) //nolint:gosec // at most 8
		words = width * len(members)
	}
	s.packed = s.packed.reserve(words)
}
