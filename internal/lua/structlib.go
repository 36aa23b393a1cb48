package lua

import (
	"encoding/binary"
	"math"
	"strings"
)

func (st *state) openStruct() {
	t := st.newTable(0, 4)
	st.register(t, map[string]native{"pack": structPack, "unpack": structUnpack, "size": structSize})
	st.globals.setField(st, "struct", value{o: t})
}

const maxIntSize = 32

// A layout reads the format of struct.pack and unpack.
type layout struct {
	l     *thread
	fmt   string
	big   bool
	align int
}

func (s *layout) next() byte {
	s.l.st.work(1)
	c := s.fmt[0]
	s.fmt = s.fmt[1:]
	return c
}

func (s *layout) num(def int) int {
	if s.fmt == "" || !isDigit(s.fmt[0]) {
		return def
	}
	a := 0
	for s.fmt != "" && isDigit(s.fmt[0]) {
		s.l.st.work(1)
		d := int(s.fmt[0] - '0')
		if a > math.MaxInt32/10 || a*10 > math.MaxInt32-d {
			s.l.errorf("integral size overflow")
		}
		a = a*10 + d
		s.fmt = s.fmt[1:]
	}
	return a
}

func (s *layout) size(opt byte) int {
	switch opt {
	case 'B', 'b', 'x':
		return 1
	case 'H', 'h':
		return 2
	case 'L', 'l', 'T', 'd':
		return 8
	case 'f':
		return 4
	case 'c':
		return s.num(1)
	case 'i', 'I':
		n := s.num(4)
		if n > maxIntSize {
			s.l.errorf("integral size %d is larger than limit of %d", n, maxIntSize)
		}
		return n
	}
	return 0
}

// padding is what aligns an item of a size at a position.
func (s *layout) padding(pos int, opt byte, size int) int {
	if size == 0 || opt == 'c' {
		return 0
	}
	size = min(size, s.align)
	return (size - pos&(size-1)) & (size - 1)
}

func (s *layout) control(opt byte) {
	switch opt {
	case ' ':
	case '>':
		s.big = true
	case '<':
		s.big = false
	case '!':
		a := s.num(8)
		if a <= 0 || a&(a-1) != 0 {
			s.l.errorf("alignment %d is not a power of 2", a)
		}
		s.align = a
	default:
		s.l.argError(1, "invalid format option '"+string([]byte{opt})+"'")
	}
}

func reversed(b []byte) {
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
}

func (s *layout) put(out []byte, b []byte) []byte {
	if s.big {
		reversed(b)
	}
	return append(out, b...)
}

func structPack(l *thread) int {
	s := layout{l: l, fmt: l.checkCString(1), align: 1}
	var out []byte
	l.push(vNil) // as the C library does, which shows in messages
	arg, total := 2, 0
	held := l.st.held
	for s.fmt != "" {
		opt := s.next()
		size := s.size(opt)
		pad := s.padding(total, opt, size)
		total += pad
		out = append(l.st.room(out, pad+2*maxIntSize), make([]byte, pad)...)
		switch opt {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			n := l.checkNum(arg)
			arg++
			v := toUint64(n)
			if n < 0 {
				v = uint64(toInt64(n))
			}
			var b [maxIntSize]byte
			binary.LittleEndian.PutUint64(b[:], v)
			out = s.put(out, b[:size])
		case 'x':
			out = append(out, 0)
		case 'f':
			b := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(l.checkNum(arg))))
			arg++
			out = s.put(out, b)
		case 'd':
			b := binary.LittleEndian.AppendUint64(nil, math.Float64bits(l.checkNum(arg)))
			arg++
			out = s.put(out, b)
		case 'c', 's':
			str := l.checkStr(arg)
			arg++
			if size == 0 {
				size = len(str)
			}
			if len(str) < size {
				l.argError(arg, "string too short")
			}
			l.st.workBytes(size)
			out = append(l.st.room(out, size+1), str[:size]...)
			if opt == 's' {
				out = append(out, 0)
				size++
			}
		default:
			s.control(opt)
		}
		total += size
	}
	l.push(l.st.bytes(out))
	l.st.held = held
	return 1
}

func (s *layout) integer(b string, signed bool) float64 {
	var v uint64
	if s.big {
		for i := range len(b) {
			v = v<<8 | uint64(b[i])
		}
	} else {
		for i := len(b) - 1; i >= 0; i-- {
			v = v<<8 | uint64(b[i])
		}
	}
	if !signed {
		return float64(v)
	}
	mask := ^uint64(0) << uint((len(b)*8-1)&63)
	if v&mask != 0 {
		v |= mask
	}
	return float64(int64(v))
}

func structUnpack(l *thread) int {
	s := layout{l: l, fmt: l.checkCString(1), align: 1}
	data := l.checkStr(2)
	start := l.optInt64(3, 1)
	if start == 0 {
		l.argError(3, "offset must be 1 or greater")
	}
	pos := uint64(start) - 1
	fits := func(size uint64) {
		if size > uint64(len(data)) || pos > uint64(len(data))-size {
			l.argError(2, "data string too short")
		}
	}
	n := 0
	for s.fmt != "" {
		opt := s.next()
		size := s.size(opt)
		pos += uint64(s.padding(int(pos&(1<<30-1)), opt, size))
		fits(uint64(size))
		if !l.roomFor(2) {
			l.errorf("stack overflow (too many results)")
		}
		item := data[pos : pos+uint64(size)]
		switch opt {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			l.pushNum(s.integer(item, opt >= 'a'))
			n++
		case 'x':
		case 'f', 'd':
			b := []byte(item)
			if s.big {
				reversed(b)
			}
			if opt == 'f' {
				l.pushNum(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
			} else {
				l.pushNum(math.Float64frombits(binary.LittleEndian.Uint64(b)))
			}
			n++
		case 'c':
			if size == 0 {
				top := l.stack[l.top-1]
				x, ok := l.st.toNumber(&top)
				if n == 0 || !ok {
					l.errorf("format 'c0' needs a previous size")
				}
				l.top--
				n--
				want := toUint64(x)
				fits(want)
				size = int(want)
				item = data[pos : pos+want]
			}
			l.push(l.st.part(data, item))
			n++
		case 's':
			i := strings.IndexByte(data[pos:], 0)
			if i < 0 {
				l.st.workBytes(len(data) - int(pos))
				l.errorf("unfinished string in data")
			}
			size = i + 1
			l.st.workBytes(size)
			l.push(l.st.part(data, data[pos:pos+uint64(i)]))
			n++
		default:
			s.control(opt)
		}
		pos += uint64(size)
	}
	l.pushNum(float64(pos + 1))
	return n + 1
}

func structSize(l *thread) int {
	s := layout{l: l, fmt: l.checkCString(1), align: 1}
	pos := 0
	for s.fmt != "" {
		opt := s.next()
		size := s.size(opt)
		pos += s.padding(pos, opt, size)
		switch {
		case opt == 's':
			l.argError(1, "option 's' has no fixed size")
		case opt == 'c' && size == 0:
			l.argError(1, "option 'c0' has no fixed size")
		case !isAlnum(opt):
			s.control(opt)
		}
		pos += size
	}
	l.pushNum(float64(pos))
	return 1
}

// hasPrefixFold is C's strncasecmp with the length of prefix.
func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
