package engine

import (
	"encoding/binary"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// packed holds the fields of a small hash in the order of insertion, one behind the other. A field
// is the lengths of its name and its value, as varints, and the bytes of both. All fields are one
// allocation, which the garbage collector need not scan. Strings that it returns point into it:
// they are valid until it changes.
type packed []byte

// length reads a varint at i. It is small enough to be inlined.
func (p packed) length(i int) (n, next int) {
	if n, next = int(p[i]), i+1; n >= 0x80 {
		n, next = p.longLength(i)
	}
	return n, next
}

func (p packed) longLength(i int) (n, next int) {
	v, size := binary.Uvarint(p[i:])
	return int(v), i + size //nolint:gosec // was an int
}

// pair returns the field at i, and where the next begins.
func (p packed) pair(i int) (name, value []byte, next int) {
	n, i := p.length(i)
	m, i := p.length(i)
	return p[i : i+n], p[i+n : i+n+m], i + n + m
}

// find returns where the field begins, -1 when it is not there, its value, and
// where the next begins.
func (p packed) find(name []byte) (at int, value []byte, next int) {
	for at < len(p) {
		f, v, next := p.pair(at)
		if string(f) == string(name) {
			return at, v, next
		}
		at = next
	}
	return -1, nil, 0
}

// pairBytes is the size of a field.
func pairBytes(name, value int) int { return lengthBytes(name) + lengthBytes(value) + name + value }

// splice makes room for size bytes in place of those between from and to.
func (p packed) splice(from, to, size int) packed {
	n := len(p) - (to - from) + size
	if n > cap(p) {
		room := n + n/8 // most hashes are made once and seldom grow
		if len(p) == 0 {
			room = n
		}
		q := make(packed, n, sizeclass.Of(room))
		copy(q, p[:from])
		copy(q[from+size:], p[to:])
		return q
	}
	old := p
	p = p[:n]
	copy(p[from+size:], old[to:])
	return p
}

// put writes a field over the bytes from to to, which are another or none. The
// strings must not lie in p.
func (p packed) put(from, to int, name, value []byte) packed {
	p = p.splice(from, to, pairBytes(len(name), len(value)))
	from += binary.PutUvarint(p[from:], uint64(len(name)))
	from += binary.PutUvarint(p[from:], uint64(len(value)))
	from += copy(p[from:], name)
	copy(p[from:], value)
	return p
}

// reserve makes room for size bytes in one that is empty.
func (p packed) reserve(size int) packed {
	if p == nil {
		return make(packed, 0, sizeclass.Of(size))
	}
	return p
}

// A small set has its members likewise, each behind its length.

// word returns the member at i, and where the next begins.
func (p packed) word(i int) (m []byte, next int) {
	n, i := p.length(i)
	return p[i : i+n], i + n
}

// findWord returns where the member begins, -1 when it is not there, and where
// the next begins.
func (p packed) findWord(m []byte) (at, next int) {
	for at < len(p) {
		w, next := p.word(at)
		if string(w) == string(m) {
			return at, next
		}
		at = next
	}
	return -1, 0
}

// putWord writes a member at the end. It must not lie in p.
func (p packed) putWord(m []byte) packed {
	at := len(p)
	p = p.splice(at, at, lengthBytes(len(m))+len(m))
	at += binary.PutUvarint(p[at:], uint64(len(m)))
	copy(p[at:], m)
	return p
}
