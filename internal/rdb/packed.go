package rdb

import (
	"encoding/binary"

	"github.com/redoubt-go/redoubt/internal/stream"
)

// listpack reads Redis' compact list, which package stream describes.
func (r *reader) listpack(b []byte) (all [][]byte) {
	if r.measures {
		return nil
	}
	const header = 6
	if len(b) < header+1 || uint64(binary.LittleEndian.Uint32(b)) != uint64(len(b)) || b[len(b)-1] != 0xff {
		r.bad = true
		return nil
	}
	e := reader{left: r.left, work: r.work}
	for i, end := header, len(b)-1; i < end && !e.bad; {
		text, n, next, ok := stream.ReadElement(b, i, end)
		if text == nil {
			text = number(n)
		}
		all = append(all, e.element(text))
		e.bad, i = e.bad || !ok, next
	}
	r.bad, r.left = r.bad || e.bad, e.left
	return all
}

// ziplist reads the compact list of Redis before 7.0, whose entries begin with
// the length of the one before.
func (r *reader) ziplist(b []byte) (all [][]byte) {
	if r.measures {
		return nil
	}
	const header = 10
	if len(b) < header+1 || uint64(binary.LittleEndian.Uint32(b)) != uint64(len(b)) || b[len(b)-1] != 0xff {
		r.bad = true
		return nil
	}
	e := reader{b: b[header : len(b)-1], left: r.left, work: r.work}
	for len(e.b) > 0 && !e.bad {
		if e.byte() == 0xfe {
			e.take(4)
		}
		all = append(all, e.element(e.zipEntry()))
	}
	r.bad, r.left = r.bad || e.bad, e.left
	return all
}

func (r *reader) zipEntry() []byte {
	b := r.byte()
	switch b >> 6 {
	case 0:
		return r.take(uint64(b & 0x3f))
	case 1:
		return r.take(uint64(b&0x3f)<<8 | uint64(r.byte()))
	case 2:
		if p := r.take(4); p != nil {
			return r.take(uint64(binary.BigEndian.Uint32(p)))
		}
		return nil
	}
	switch {
	case b == 0xc0:
		return number(little(r.take(2)))
	case b == 0xd0:
		return number(little(r.take(4)))
	case b == 0xe0:
		return number(little(r.take(8)))
	case b == 0xf0:
		return number(little(r.take(3)))
	case b == 0xfe:
		return number(little(r.take(1)))
	case b >= 0xf1 && b <= 0xfd:
		return number(int64(b&0x0f) - 1)
	}
	r.bad = true
	return nil
}

// plausible says whether so many packed bytes can be a string of size.
func plausible(packed, size uint64) bool {
	const most = 264          // bytes from one reference, which takes two or three
	const longest = 512 << 20 // a string of Redis
	return size <= longest && size <= packed*most/2
}

const (
	lzfPart = 16 << 10 // bytes from one call of work to the next
	lzfCost = 8        // one byte takes as long as so many that are copied
)

// unpack undoes LZF: runs of up to 32 literal bytes, and references to up to
// 264 bytes of the last 8 KiB.
func unpack(b []byte, size uint64, work Work) ([]byte, bool) {
	if !plausible(uint64(len(b)), size) || unpacked(b, work) != size {
		return nil, false // before memory is taken for it
	}
	out := make([]byte, 0, size)
	done := 0
	for len(b) > 0 {
		if n := len(out) - done; n >= lzfPart {
			work.count(lzfCost * n)
			done += n
		}
		c := int(b[0])
		b = b[1:]
		if c < 32 {
			if c++; c > len(b) || uint64(len(out)+c) > size {
				return nil, false
			}
			out = append(out, b[:c]...)
			b = b[c:]
			continue
		}
		n := c >> 5
		if n == 7 {
			if len(b) == 0 {
				return nil, false
			}
			n += int(b[0])
			b = b[1:]
		}
		if len(b) == 0 {
			return nil, false
		}
		from := len(out) - (c&0x1f)<<8 - 1 - int(b[0])
		b = b[1:]
		n += 2
		if from < 0 || uint64(len(out)+n) > size {
			return nil, false
		}
		for i := range n { // the two may overlap
			out = append(out, out[from+i])
		}
	}
	work.count(lzfCost * (len(out) - done))
	return out, uint64(len(out)) == size
}

// unpacked returns how many bytes packed ones stand for, 0 if they are wrong.
func unpacked(b []byte, work Work) (size uint64) {
	left := len(b)
	for len(b) > 0 {
		if n := left - len(b); n >= lzfPart {
			work.count(lzfCost * n)
			left -= n
		}
		c := int(b[0])
		n, skip := uint64(c)+1, c+2 //nolint:gosec // one byte
		if c >= 32 {
			if n, skip = uint64(c>>5)+2, 2; c>>5 == 7 { //nolint:gosec // one byte
				if len(b) < 2 {
					return 0
				}
				n, skip = n+uint64(b[1]), 3
			}
		}
		if skip > len(b) {
			return 0
		}
		b, size = b[skip:], size+n
	}
	return size
}
