package engine

// A list is a deque of chunks of at most chunkSize elements, so that both ends
// cost O(1), the middle O(n/chunkSize), and an insertion moves one chunk.
type list struct {
	first, last *chunk
	n           int
	bytes       int // of all elements, for OBJECT ENCODING and the like
}

const chunkSize = 128

type chunk struct {
	prev, next *chunk
	from, to   int // the elements are vals[from:to]
	vals       []string
}

func (l *list) len() int { return l.n }

func newChunk(size, at int) *chunk { return &chunk{vals: make([]string, size), from: at, to: at} }

// room makes the chunk's array larger. A new list begins small.
func (k *chunk) room(front bool) bool {
	if front && k.from > 0 || !front && k.to < len(k.vals) {
		return true
	}
	n := k.to - k.from
	if n == chunkSize {
		return false
	}
	size := len(k.vals)
	if n > size/2 {
		size = min(2*size, chunkSize)
	}
	vals := make([]string, size)
	at := 0
	if front {
		at = size - n
	}
	copy(vals[at:], k.vals[k.from:k.to])
	k.vals, k.from, k.to = vals, at, at+n
	return true
}

func (l *list) pushFront(s string) {
	if l.first == nil {
		l.first = newChunk(4, 4)
		l.last = l.first
	} else if !l.first.room(true) {
		k := newChunk(chunkSize, chunkSize)
		k.next, l.first.prev, l.first = l.first, k, k
	}
	k := l.first
	k.from--
	k.vals[k.from] = s
	l.n++
	l.bytes += len(s)
}

func (l *list) pushBack(s string) {
	if l.last == nil {
		l.first = newChunk(4, 0)
		l.last = l.first
	} else if !l.last.room(false) {
		k := newChunk(chunkSize, 0)
		k.prev, l.last.next, l.last = l.last, k, k
	}
	k := l.last
	k.vals[k.to] = s
	k.to++
	l.n++
	l.bytes += len(s)
}

func (l *list) popFront() string {
	k := l.first
	s := k.vals[k.from]
	k.vals[k.from] = ""
	k.from++
	l.removed(k, s)
	return s
}

func (l *list) popBack() string {
	k := l.last
	k.to--
	s := k.vals[k.to]
	k.vals[k.to] = ""
	l.removed(k, s)
	return s
}

func (l *list) removed(k *chunk, s string) {
	l.n--
	l.bytes -= len(s)
	if k.from == k.to {
		l.unlink(k)
	}
}

func (l *list) unlink(k *chunk) {
	if k.prev == nil {
		l.first = k.next
	} else {
		k.prev.next = k.next
	}
	if k.next == nil {
		l.last = k.prev
	} else {
		k.next.prev = k.prev
	}
}

// A place is an element of a list. Changes elsewhere make it invalid.
type place struct {
	k *chunk
	i int
}

func (p place) ok() bool      { return p.k != nil }
func (p place) value() string { return p.k.vals[p.i] }

// at returns the place of the element i, 0 ≤ i < n.
func (l *list) at(i int) place {
	if i < l.n/2 {
		for k := l.first; k != nil; k = k.next {
			if n := k.to - k.from; i < n {
				return place{k, k.from + i}
			} else {
				i -= n
			}
		}
		return place{}
	}
	i = l.n - 1 - i
	for k := l.last; k != nil; k = k.prev {
		if n := k.to - k.from; i < n {
			return place{k, k.to - 1 - i}
		} else {
			i -= n
		}
	}
	return place{}
}

func (p place) next() place {
	if p.i++; p.i < p.k.to {
		return p
	}
	if p.k = p.k.next; p.k == nil {
		return place{}
	}
	p.i = p.k.from
	return p
}

func (p place) prev() place {
	if p.i--; p.i >= p.k.from {
		return p
	}
	if p.k = p.k.prev; p.k == nil {
		return place{}
	}
	p.i = p.k.to - 1
	return p
}

func (l *list) set(p place, s string) {
	l.bytes += len(s) - len(p.value())
	p.k.vals[p.i] = s
}

// remove takes the element at p out. Going forward, the place of the element
// behind it is p itself when that is still inside the chunk.
func (l *list) remove(p place) {
	k := p.k
	s := k.vals[p.i]
	copy(k.vals[p.i:], k.vals[p.i+1:k.to])
	k.to--
	k.vals[k.to] = ""
	l.removed(k, s)
}

// insert puts s before p, or behind it.
func (l *list) insert(p place, s string, before bool) {
	k, i := p.k, p.i
	if !before {
		i++
	}
	if k.to-k.from == chunkSize {
		half := newChunk(chunkSize, 0)
		mid := k.from + chunkSize/2
		half.to = copy(half.vals, k.vals[mid:k.to])
		clear(k.vals[mid:k.to])
		k.to = mid
		half.prev, half.next = k, k.next
		if k.next == nil {
			l.last = half
		} else {
			k.next.prev = half
		}
		k.next = half
		if i > mid {
			k, i = half, i-mid
		}
	}
	offset := i - k.from
	if k.to == len(k.vals) {
		k.room(false)
		if k.to == len(k.vals) { // full to the end with room in front
			copy(k.vals, k.vals[k.from:k.to])
			n := k.to - k.from
			clear(k.vals[n:k.to])
			k.from, k.to = 0, n
		}
	}
	i = k.from + offset
	copy(k.vals[i+1:k.to+1], k.vals[i:k.to])
	k.vals[i] = s
	k.to++
	l.n++
	l.bytes += len(s)
}

// all calls f for each element until it returns false.
func (l *list) all(f func(string) bool) {
	for k := l.first; k != nil; k = k.next {
		for _, s := range k.vals[k.from:k.to] {
			if !f(s) {
				return
			}
		}
	}
}
