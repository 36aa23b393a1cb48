package stream

import (
	"slices"
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// A keyed is an element that is in the order of keys.
type keyed[K any] interface {
	// compare compares the element's key with k.
	compare(k K) int
}

// An ordered has elements in order, in chunks of at most chunkLen. To find, to add and to remove one costs about the
// logarithm of their number. Changes add the difference in memory to *bytes.
type ordered[K any, E keyed[K]] struct{ chunks [][]E }

// chunkLen is how many elements a chunk has at most.
const chunkLen = 64

// A place is that of an element, until a change.
type place struct{ chunk, i int }

func (o *ordered[K, E]) at(p place) *E { return &o.chunks[p.chunk][p.i] }

// valid reports whether there is an element at p.
func (o *ordered[K, E]) valid(p place) bool { return p.chunk >= 0 && p.chunk < len(o.chunks) }

func (o *ordered[K, E]) next(p place) place {
	if p.i++; p.i == len(o.chunks[p.chunk]) {
		return place{p.chunk + 1, 0}
	}
	return p
}

func (o *ordered[K, E]) prev(p place) place {
	if p.i--; p.i < 0 {
		if p.chunk--; p.chunk >= 0 {
			p.i = len(o.chunks[p.chunk]) - 1
		}
	}
	return p
}

// last returns the place of the last element, which is not valid when there is none.
func (o *ordered[K, E]) last() place {
	c := len(o.chunks) - 1
	if c < 0 {
		return place{-1, 0}
	}
	return place{c, len(o.chunks[c]) - 1}
}

func (o *ordered[K, E]) len() (n int) {
	for _, c := range o.chunks {
		n += len(c)
	}
	return n
}

// find returns the place of the first element whose key is k or behind it, and whether it is k.
func (o *ordered[K, E]) find(k K) (place, bool) {
	lo, hi := 0, len(o.chunks) // the first chunk whose last element is not before k
	if hi > 0 {
		if c := o.chunks[hi-1]; c[len(c)-1].compare(k) < 0 { // most often it belongs at the end
			return place{hi, 0}, false
		}
	}
	for lo < hi {
		m := (lo + hi) / 2
		if c := o.chunks[m]; c[len(c)-1].compare(k) < 0 {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == len(o.chunks) {
		return place{lo, 0}, false
	}
	c := o.chunks[lo]
	i, j := 0, len(c)-1
	for i < j {
		if m := (i + j) / 2; c[m].compare(k) < 0 {
			i = m + 1
		} else {
			j = m
		}
	}
	return place{lo, i}, c[i].compare(k) == 0
}

// insert puts e before the element at p, which may be the place behind the last.
func (o *ordered[K, E]) insert(p place, e E, bytes *int64) {
	if p.chunk == len(o.chunks) {
		if n := len(o.chunks); n == 0 || len(o.chunks[n-1]) == chunkLen {
			o.addChunk(n, make([]E, 0, min(chunkLen, 1+7*n)), bytes)
		} else {
			p = place{n - 1, len(o.chunks[n-1])}
		}
	}
	c := o.chunks[p.chunk]
	if len(c) == chunkLen {
		half := chunkLen / 2
		upper := append(make([]E, 0, chunkLen), c[half:]...)
		clear(c[half:])
		o.chunks[p.chunk] = c[:half]
		o.addChunk(p.chunk+1, upper, bytes)
		if p.i > half {
			p = place{p.chunk + 1, p.i - half}
		}
		c = o.chunks[p.chunk]
	}
	if len(c) == cap(c) {
		c = o.resize(p.chunk, min(chunkLen, 2*cap(c)), bytes)
	}
	o.chunks[p.chunk] = slices.Insert(c, p.i, e)
}

// remove removes the element at p.
func (o *ordered[K, E]) remove(p place, bytes *int64) {
	c := slices.Delete(o.chunks[p.chunk], p.i, p.i+1)
	o.chunks[p.chunk] = c
	switch {
	case len(c) == 0:
		o.dropChunk(p.chunk, bytes)
	case len(c) <= chunkLen/4 && p.chunk+1 < len(o.chunks) && len(o.chunks[p.chunk+1]) <= chunkLen/4:
		if n := len(c) + len(o.chunks[p.chunk+1]); n > cap(c) {
			c = o.resize(p.chunk, chunkLen/2, bytes)
		}
		o.chunks[p.chunk] = append(c, o.chunks[p.chunk+1]...)
		o.dropChunk(p.chunk+1, bytes)
	case len(c) <= cap(c)/4:
		o.resize(p.chunk, cap(c)/2, bytes)
	}
}

func (o *ordered[K, E]) resize(chunk, size int, bytes *int64) []E {
	c := append(make([]E, 0, size), o.chunks[chunk]...)
	*bytes += o.chunkBytes(size) - o.chunkBytes(cap(o.chunks[chunk]))
	o.chunks[chunk] = c
	return c
}

func (o *ordered[K, E]) addChunk(at int, c []E, bytes *int64) {
	before := o.topBytes()
	o.chunks = slices.Insert(o.chunks, at, c)
	*bytes += o.topBytes() - before + o.chunkBytes(cap(c))
}

func (o *ordered[K, E]) dropChunk(at int, bytes *int64) {
	before := o.topBytes()
	*bytes -= o.chunkBytes(cap(o.chunks[at]))
	switch {
	case len(o.chunks) == 1:
		o.chunks = nil
	case at == 0:
		o.chunks[0] = nil
		o.chunks = o.chunks[1:]
	default:
		o.chunks = slices.Delete(o.chunks, at, at+1)
	}
	*bytes += o.topBytes() - before
}

func (o *ordered[K, E]) topBytes() int64 {
	return sizeclass.Of(cap(o.chunks) * int(unsafe.Sizeof([]E{})))
}

func (o *ordered[K, E]) chunkBytes(elements int) int64 {
	var e E
	return sizeclass.Of(elements * int(unsafe.Sizeof(e)))
}

// bytes is what all chunks take.
func (o *ordered[K, E]) bytes() int64 {
	n := o.topBytes()
	for _, c := range o.chunks {
		n += o.chunkBytes(cap(c))
	}
	return n
}
