package engine

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// A set is a sorted array of integers while it has nothing but integers and is
// small. A small one with other members has them packed in the order of
// insertion, and is searched from end to end. A larger one is a dict.
type set struct{ value }

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

// isInts says whether the set is in a form for integers.
func (s *set) isInts() bool { return s.form <= formInts64 }

func (s *set) isWords() bool { return s.form == formWords }

// big returns the members of a large set, nil for a small one.
func (s *set) big() *bigSet {
	if s.form == formSet {
		return (*bigSet)(s.p)
	}
	return nil
}

func (s *set) packed() packed { return s.bytes() }

func (s *set) has(m []byte) bool {
	switch {
	case s.form == formSet:
		return s.big().get(m) != nil
	case s.isWords():
		at, _ := s.packed().findWord(m)
		return at >= 0
	}
	n, ok := parseInt(m)
	if !ok {
		return false
	}
	_, found := s.search(n)
	return found
}

func (s *set) add(l *limits, m []byte) bool {
	if s.isInts() {
		if n, ok := parseInt(m); ok {
			i, found := s.search(n)
			if found {
				return false
			}
			if s.len() < min(l.setEntries, mostPacked) {
				s.insert(i, n)
				return true
			}
		}
		s.convert(s.len() < mostWords && len(m) <= longestWord)
	}
	if s.isWords() {
		if at, _ := s.packed().findWord(m); at >= 0 {
			return false
		}
		if s.few < mostWords && len(m) <= longestWord {
			s.setBytes(s.packed().putWord(m))
			s.few++
			return true
		}
		s.convert(false)
	}
	return s.big().add(m)
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
	var bytes packed
	big := &bigSet{}
	s.each(func(m []byte) bool {
		if words {
			bytes = bytes.putWord(m)
		} else {
			big.add(m)
		}
		return true
	})
	if words {
		s.form = formWords
		s.setBytes(bytes)
		return
	}
	s.become(newBigSet(big))
}

func newBigSet(b *bigSet) *value { return &value{form: formSet, p: unsafe.Pointer(b)} }

func (s *set) remove(m []byte) bool {
	switch {
	case s.form == formSet:
		if s.big().dict.remove(m) == nil {
			return false
		}
		s.big().bytes -= sizeclass.Of(len(m))
		return true
	case s.isWords():
		at, next := s.packed().findWord(m)
		if at < 0 {
			return false
		}
		s.setBytes(s.packed().splice(at, next, 0))
	default:
		n, ok := parseInt(m)
		if !ok {
			return false
		}
		i, found := s.search(n)
		if !found {
			return false
		}
		w := s.width()
		s.setBytes(s.packed().splice(i*w, (i+1)*w, 0))
	}
	s.few--
	return true
}

// each calls f for every member until it returns false. The bytes are valid
// during the call only.
func (s *set) each(f func(m []byte) bool) {
	switch {
	case s.form == formSet:
		s.big().each(func(e *entry[struct{}]) bool { return f(view(e.key)) })
	case s.isWords():
		p := s.packed()
		for at := 0; at < len(p); {
			m, next := p.word(at)
			if !f(m) {
				return
			}
			at = next
		}
	default:
		var buf [24]byte
		for i := range s.len() {
			if !f(appendInt(buf[:0], s.int(i))) {
				return
			}
		}
	}
}

// random returns a member, each with the same probability. It is valid until
// the set is changed.
func (s *set) random() (m string) {
	if b := s.big(); b != nil {
		return b.random().key
	}
	left := rand.IntN(s.len())
	if s.isInts() {
		return strconv.FormatInt(s.int(left), 10)
	}
	p, at := s.packed(), 0
	for ; left > 0; left-- {
		_, at = p.word(at)
	}
	word, _ := p.word(at)
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
func (s *set) without(l *limits, n int, work func(int), f func(m []byte)) *set {
	left, rest := s.len(), &set{newSet()}
	s.each(func(m []byte) bool {
		work(2 * stepsPerMember)
		if rand.IntN(left) < n {
			f(m)
			n--
		} else {
			rest.add(l, m)
		}
		left--
		return true
	})
	return rest
}

func (s *set) clone(work func(int)) *value {
	big := &bigSet{}
	if s.form != formSet {
		c := &value{form: s.form, few: s.few}
		c.setBytes(slices.Clone(s.bytes()))
		return c
	}
	s.each(func(m []byte) bool {
		work(stepsPerMember)
		big.add(m)
		return true
	})
	return newBigSet(big)
}

// reserve makes a new set ready for members, if they fit. One that is empty again
// keeps its form.
func (s *set) reserve(members [][]byte) {
	if s.len() > 0 || !s.isInts() || len(members) < 2 || len(members) > mostWords {
		return
	}
	words, ints, width := 0, true, 2
	for _, m := range members {
		if len(m) > longestWord {
			return
		}
		words += lengthBytes(len(m)) + len(m)
		if n, ok := parseInt(m); ok {
			width = max(width, intWidth(n))
		} else {
			ints = false
		}
	}
	if s.form = formWords; ints {
		s.form = intForm(width)
		words = width * len(members)
	}
	s.setBytes(s.packed().reserve(words))
}
