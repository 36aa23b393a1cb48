package rdb

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// Parse reads the output of DUMP. The value may share memory with payload. The error matches
// [ErrChecksum], [ErrFormat], or [ErrTooLarge] when the value would take more than [Largest].
//
// Parse does not check that the members of a set, or the fields of a hash, differ.
func Parse(payload []byte) (*Value, error) { return ParseAtMost(payload, Largest, nil) }

// ParseAtMost is [Parse] for values of at most most bytes of memory, which counts 32 bytes per element
// beside the element itself. It calls work with the bytes that it has read.
func ParseAtMost(payload []byte, most int64, work Work) (*Value, error) {
	n := len(payload) - footer
	if n < 0 || binary.LittleEndian.Uint16(payload[n:]) > VersionFieldTTL ||
		binary.LittleEndian.Uint64(payload[n+2:]) != checksumWith(payload[:n+2], work) {
		return nil, ErrChecksum
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: no type", ErrFormat)
	}
	// First add up the sizes that are announced, without unpacking anything.
	announced := reader{b: payload[1:n], left: most, measures: true, work: work}
	if announced.value(payload[0]); announced.left < 0 {
		return nil, fmt.Errorf("%w of %d bytes", ErrTooLarge, most)
	}
	r := reader{b: payload[1:n], left: most, work: work}
	v := r.value(payload[0])
	switch {
	case r.left < 0:
		return nil, fmt.Errorf("%w of %d bytes", ErrTooLarge, most)
	case r.bad:
		return nil, fmt.Errorf("%w: type %d", ErrFormat, payload[0])
	case v.Kind != String && v.Kind != Stream && len(v.Elements) == 0:
		return nil, fmt.Errorf("%w: a collection without elements", ErrFormat)
	}
	return v, nil
}

// A reader parses a value. After a fault bad is set, and its results mean nothing.
type reader struct {
	b    []byte
	bad  bool
	left int64 // memory that may still be taken, in bytes

	measures bool // nothing is unpacked: only left counts
	work     Work
}

// perElement is what an element takes beside its bytes.
const perElement = 32

// spend counts memory before it is taken. It reports false when there is none
// left: a few bytes can stand for many, packed by LZF or as empty elements.
func (r *reader) spend(n uint64) bool {
	r.work.count(perElement)
	switch {
	case r.bad:
		return false
	case n > uint64(r.left): //nolint:gosec // not negative until bad
		r.bad, r.left = true, -1
		return false
	}
	r.left -= int64(n) //nolint:gosec // at most left
	return true
}

// element counts an element of a list of some form.
func (r *reader) element(b []byte) []byte {
	r.spend(perElement + uint64(len(b)))
	return b
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// length reads a length, or with special the form of a string.
func (r *reader) length() (n uint64, special bool) {
	b := r.byte()
	switch {
	case b>>6 == len6:
		return uint64(b), false
	case b>>6 == len14:
		return uint64(b&0x3f)<<8 | uint64(r.byte()), false
	case b>>6 == 3:
		return uint64(b & 0x3f), true
	case b == len32:
		if p := r.take(4); p != nil {
			return uint64(binary.BigEndian.Uint32(p)), false
		}
	case b == len64:
		if p := r.take(8); p != nil {
			return binary.BigEndian.Uint64(p), false
		}
	}
	r.bad = true
	return 0, false
}

// count reads how many elements follow. Each takes a byte or more.
func (r *reader) count() uint64 {
	n, special := r.length()
	if special || n > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	return n
}

func (r *reader) string() []byte {
	before := r.left
	b := r.text()
	if r.left != before { // text has counted the bytes, because they were packed
		r.spend(perElement)
		return b
	}
	return r.element(b)
}

func (r *reader) text() []byte {
	n, special := r.length()
	if !special {
		return r.take(n)
	}
	switch n {
	case encInt8:
		return number(int64(int8(r.byte()))) //nolint:gosec // two's complement
	case encInt16:
		if p := r.take(2); p != nil {
			return number(int64(int16(binary.LittleEndian.Uint16(p)))) //nolint:gosec // two's complement
		}
	case encInt32:
		if p := r.take(4); p != nil {
			return number(int64(int32(binary.LittleEndian.Uint32(p)))) //nolint:gosec // two's complement
		}
	case encLZF:
		packed, ok := r.length()
		size, ok2 := r.length()
		if !ok && !ok2 && plausible(packed, size) && r.spend(size) {
			b := r.take(packed)
			if r.measures {
				return nil
			}
			if out, ok := unpack(b, size, r.work); ok {
				return out
			}
		}
	}
	r.bad = true
	return nil
}

func number(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

func (r *reader) float() float64 {
	if p := r.take(8); p != nil {
		return math.Float64frombits(binary.LittleEndian.Uint64(p))
	}
	return 0
}

// oldFloat reads a score as Redis wrote it before 4.0: as text.
func (r *reader) oldFloat() float64 {
	switch n := r.byte(); n {
	case 253:
		return math.NaN()
	case 254:
		return math.Inf(1)
	case 255:
		return math.Inf(-1)
	default:
		return r.parseFloat(r.take(uint64(n)))
	}
}

func (r *reader) parseFloat(b []byte) float64 {
	f, err := strconv.ParseFloat(string(b), 64)
	r.bad = r.bad || err != nil
	return f
}

func (r *reader) value(t byte) *Value {
	v := &Value{}
	switch t {
	case typeString:
		v.Str = r.string()
	case typeList, typeSet:
		v.Kind = List
		if t == typeSet {
			v.Kind = Set
		}
		for n := r.count(); n > 0 && !r.bad; n-- {
			v.Elements = append(v.Elements, r.string())
		}
	case typeZset, typeZset2:
		v.Kind = Zset
		for n := r.count(); n > 0 && !r.bad; n-- {
			v.Elements = append(v.Elements, r.string())
			if t == typeZset {
				v.Scores = append(v.Scores, r.oldFloat())
			} else {
				v.Scores = append(v.Scores, r.float())
			}
		}
	case typeHash, typeHashTTL:
		r.hash(v, t == typeHashTTL)
	case typeListZiplist, typeListQuicklist, typeListQuicklist2:
		v.Kind = List
		r.list(v, t)
	case typeSetIntset:
		v.Kind = Set
		v.Elements = r.intset(r.string())
	case typeSetListpack:
		v.Kind = Set
		v.Elements = r.listpack(r.string())
	case typeZsetZiplist, typeZsetListpack:
		v.Kind = Zset
		all := r.packed(t == typeZsetZiplist)
		for i := 0; i+1 < len(all); i += 2 {
			v.Elements = append(v.Elements, all[i])
			v.Scores = append(v.Scores, r.parseFloat(all[i+1]))
		}
		r.bad = r.bad || len(all)%2 != 0
	case typeHashZiplist, typeHashListpack:
		v.Kind = Hash
		all := r.packed(t == typeHashZiplist)
		for i := 0; i+1 < len(all); i += 2 {
			v.Elements, v.Values = append(v.Elements, all[i]), append(v.Values, all[i+1])
		}
		r.bad = r.bad || len(all)%2 != 0
	case typeHashListpackEx:
		r.hashEx(v)
	case typeStreamListpacks:
		v.Kind, v.Stream = Stream, r.stream(1)
	case typeStreamListpacks2:
		v.Kind, v.Stream = Stream, r.stream(2)
	case typeStreamListpacks3:
		v.Kind, v.Stream = Stream, r.stream(3)
	default:
		r.bad = true
	}
	for _, f := range v.Scores {
		r.bad = r.bad || math.IsNaN(f)
	}
	r.bad = r.bad || len(r.b) > 0
	return v
}

func (r *reader) packed(old bool) [][]byte {
	if old {
		return r.ziplist(r.string())
	}
	return r.listpack(r.string())
}

func (r *reader) list(v *Value, t byte) {
	if t == typeListZiplist {
		v.Elements = r.ziplist(r.string())
		return
	}
	const plain, packed = 1, 2
	for n := r.count(); n > 0 && !r.bad; n-- {
		form := uint64(packed)
		if t == typeListQuicklist2 {
			form, _ = r.length()
		}
		s := r.string()
		switch {
		case t == typeListQuicklist:
			v.Elements = append(v.Elements, r.ziplist(s)...)
		case form == plain:
			v.Elements = append(v.Elements, s)
		case form == packed:
			v.Elements = append(v.Elements, r.listpack(s)...)
		default:
			r.bad = true
		}
	}
}

func (r *reader) hash(v *Value, ttl bool) {
	v.Kind = Hash
	var earliest int64
	if ttl {
		earliest = r.time()
	}
	for n := r.count(); n > 0 && !r.bad; n-- {
		if ttl {
			after, _ := r.length()
			v.Expires = append(v.Expires, r.deadline(after, earliest))
		}
		v.Elements = append(v.Elements, r.string())
		v.Values = append(v.Values, r.string())
	}
}

// maxTime keeps sums of times within an int64.
const maxTime = 1 << 60

func (r *reader) time() int64 {
	p := r.take(8)
	if p == nil {
		return 0
	}
	n := binary.LittleEndian.Uint64(p)
	if n > maxTime {
		r.bad = true
		return 0
	}
	return int64(n) //nolint:gosec // below maxTime
}

func (r *reader) deadline(after uint64, earliest int64) int64 {
	switch {
	case after == 0:
		return 0
	case after > maxTime:
		r.bad = true
		return 0
	}
	return earliest + int64(after) - 1 //nolint:gosec // below maxTime
}

// hashEx reads a listpack of field, value and deadline.
func (r *reader) hashEx(v *Value) {
	v.Kind = Hash
	r.time()
	all := r.listpack(r.string())
	for i := 0; i+2 < len(all); i += 3 {
		at, err := strconv.ParseInt(string(all[i+2]), 10, 64)
		if err != nil || at < 0 || at > maxTime {
			r.bad = true
		}
		v.Elements, v.Values = append(v.Elements, all[i]), append(v.Values, all[i+1])
		v.Expires = append(v.Expires, at)
	}
	r.bad = r.bad || len(all)%3 != 0
}

// intset reads a sorted array of integers of one width.
func (r *reader) intset(b []byte) (all [][]byte) {
	if len(b) < 8 {
		r.bad = true
		return nil
	}
	width, n := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
	b = b[8:]
	if width != 2 && width != 4 && width != 8 || n*width != uint64(len(b)) {
		r.bad = true
		return nil
	}
	for ; len(b) > 0; b = b[width:] {
		all = append(all, r.element(number(little(b[:width]))))
		if r.bad {
			return nil
		}
	}
	return all
}

// little reads a signed integer of up to 8 bytes, the lowest first.
func little(b []byte) int64 {
	var n uint64
	for i, c := range b {
		n |= uint64(c) << (8 * i)
	}
	shift := 64 - 8*len(b)
	return int64(n<<shift) >> shift //nolint:gosec // two's complement
}
