package engine

import (
	"encoding/binary"
	"math"
)

// A zpacked holds the members of a small sorted set in order, one behind the other. A member is a
// varint, its score, its bytes, and the varint again with its bytes in reverse for reading
// backwards. The varint is four times the length of the member, plus the code of scoreBytes for its
// score. Strings that it returns point into it: they are valid until it changes.
type zpacked []byte

// A score takes 1<<code bytes: an integer of that size, or a float when it is
// none of 32 bits.
const codeFloat = 3

func scoreCode(score float64) int {
	switch n := int32(score); {
	case score < math.MinInt32 || score > math.MaxInt32 || float64(n) != score:
		return codeFloat
	case n == int32(int8(n)): //nolint:gosec // that is the question
		return 0
	case n == int32(int16(n)): //nolint:gosec // likewise
		return 1
	}
	return 2
}

// scoredBytes is the size of a member of n bytes.
func scoredBytes(n int, score float64) int {
	code := scoreCode(score)
	return 2*lengthBytes(n<<2|code) + 1<<code + n
}

// A zplace is a member of a zpacked as it lies there.
type zplace struct {
	score, member, next int // where they begin
	code, n             int
}

func (p zpacked) place(i int) zplace {
	head, from := packed(p).length(i)
	code, n := head&3, head>>2
	member := from + 1<<code
	return zplace{from, member, member + n + from - i, code, n}
}

// before returns where the member begins that ends at i.
func (p zpacked) before(i int) int {
	head, size := 0, 0
	for shift := 0; ; shift += 7 {
		size++
		b := p[i-size]
		head |= int(b&0x7f) << shift
		if b < 0x80 {
			return i - 2*size - 1<<(head&3) - head>>2
		}
	}
}

func (p zpacked) name(i int) string {
	at := p.place(i)
	return text(p[at.member : at.member+at.n])
}

func (p zpacked) scoreAt(i int) float64 { return p.scoreOf(p.place(i)) }

func (p zpacked) scoreOf(at zplace) float64 {
	b := p[at.score:]
	switch at.code {
	case 0:
		return float64(int8(b[0])) //nolint:gosec // it was one
	case 1:
		return float64(int16(binary.LittleEndian.Uint16(b))) //nolint:gosec // likewise
	case 2:
		return float64(int32(binary.LittleEndian.Uint32(b))) //nolint:gosec // likewise
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

// putScore writes a score at b[0:], in the form of code.
func putScore(b []byte, score float64, code int) {
	switch code {
	case 0:
		b[0] = byte(int8(score))
	case 1:
		binary.LittleEndian.PutUint16(b, uint16(int16(score))) //nolint:gosec // it fits
	case 2:
		binary.LittleEndian.PutUint32(b, uint32(int32(score))) //nolint:gosec // likewise
	default:
		binary.LittleEndian.PutUint64(b, math.Float64bits(score))
	}
}

// find returns where a member begins, -1 when it is not there.
func (p zpacked) find(member []byte) int {
	for i := 0; i < len(p); {
		at := p.place(i)
		if string(p[at.member:at.member+at.n]) == string(member) {
			return i
		}
		i = at.next
	}
	return -1
}

// less says whether the member at i comes before another.
func (p zpacked) less(i int, score float64, member []byte) bool {
	at := p.place(i)
	if s := p.scoreOf(at); s != score {
		return s < score
	}
	return string(p[at.member:at.member+at.n]) < string(member)
}

// seek returns where a member belongs. Most often that is the end.
func (p zpacked) seek(score float64, member []byte) (i int) {
	if len(p) == 0 || p.less(p.before(len(p)), score, member) {
		return len(p)
	}
	for p.less(i, score, member) {
		i = p.place(i).next
	}
	return i
}

// add puts a member in, which must not lie in p.
func (p zpacked) add(member []byte, score float64) zpacked {
	i, code := p.seek(score, member), scoreCode(score)
	p = zpacked(packed(p).splice(i, i, scoredBytes(len(member), score)))
	head := uint64(len(member)<<2 | code) //nolint:gosec // a length
	from := i + binary.PutUvarint(p[i:], head)
	putScore(p[from:], score, code)
	end := from + 1<<code
	end += copy(p[end:], member)
	for j := from; j > i; j-- {
		p[end] = p[j-1]
		end++
	}
	return p
}

// move gives the member at i another score.
func (p zpacked) move(i int, score float64) zpacked {
	at := p.place(i)
	member := p[at.member : at.member+at.n]
	if at.code == scoreCode(score) && (i == 0 || p.less(p.before(i), score, member)) && (at.next == len(p) || !p.less(at.next, score, member)) {
		putScore(p[at.score:], score, at.code)
		return p
	}
	var buf [64]byte
	member = append(buf[:0], member...)
	return zpacked(packed(p).splice(i, at.next, 0)).add(member, score)
}
