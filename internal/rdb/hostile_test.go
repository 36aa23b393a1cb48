package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/stream"
)

// TestHostileLengths wants payloads that claim much to be refused before much
// memory is taken for them.
func TestHostileLengths(t *testing.T) {
	const size = 4 << 20
	sealed := func(t byte, body ...[]byte) []byte { return seal(t, string(bytes.Join(body, nil))) }
	noise := bytes.Repeat([]byte{0xff}, size) // no string begins so
	many := appendLen(nil, size)
	literal := []byte{0, 'x'}                                                             // LZF of one byte
	far := append([]byte{7 << 5, 255, 0}, bytes.Repeat([]byte{7 << 5, 255, 0}, 5<<20)...) // and of 264 more each
	long := append(append([]byte{0xc0 | encLZF}, appendLen(nil, uint64(len(literal)+len(far)))...), appendLen(nil, uint64(1+264*len(far)/3))...)
	for name, payload := range map[string][]byte{
		"list":            sealed(typeList, many, noise),
		"set":             sealed(typeSet, many, noise),
		"zset":            sealed(typeZset2, many, noise),
		"hash":            sealed(typeHash, many, noise),
		"hash with times": sealed(typeHashTTL, make([]byte, 8), many, noise),
		"quicklist":       sealed(typeListQuicklist2, many, noise),
		"stream":          sealed(typeStreamListpacks2, many, noise),
		"groups":          sealed(typeStreamListpacks2, make([]byte, 9), many, noise),
		"pending":         sealed(typeStreamListpacks2, append(make([]byte, 9), "\x01\x01g\x00\x00\x00"...), many, noise),
		"consumers":       sealed(typeStreamListpacks2, append(make([]byte, 9), "\x01\x01g\x00\x00\x00\x00"...), many, noise),
		"long string":     sealed(typeList, []byte{1}, long, literal, far),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse(payload)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, want ErrFormat", name, err)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > size {
			t.Errorf("%s: %d MB were taken for %d", name, taken>>20, len(payload)>>20)
		}
	}
}

// lzf packs n times the letter x.
func lzf(n int) []byte {
	packed := []byte{0, 'x'}
	for left := n - 1; left > 0; {
		k := min(left, 264)
		if left-k == 1 || left-k == 2 {
			k -= 3
		}
		switch {
		case k >= 9:
			packed = append(packed, 7<<5, byte(k-9), 0)
		case k >= 3:
			packed = append(packed, byte(k-2)<<5, 0)
		default:
			packed = append(append(packed, byte(k-1)), bytes.Repeat([]byte{'x'}, k)...)
		}
		left -= k
	}
	out := append([]byte{0xc0 | encLZF}, appendLen(nil, uint64(len(packed)))...)
	return append(appendLen(out, uint64(n)), packed...)
}

// bombs are sound payloads that take much more memory than they have bytes.
func bombs(size int) map[string][]byte {
	// A listpack of zeros: each takes a byte, and one for its length.
	size |= 1
	inner := append(binary.LittleEndian.AppendUint32(nil, uint32(size)), 0xff, 0xff) //nolint:gosec // small
	packed := append(append([]byte{5}, inner...), 1, 0, 1)
	at := len(inner) + 2
	for ; at+2+264 < size-1; at += 264 {
		packed = append(packed, 7<<5, 255, 1)
	}
	for ; at < size-1; at += 2 {
		packed = append(packed, 1, 0, 1)
	}
	packed = append(packed, 0, 0xff)
	list := append(append(append([]byte{0xc0 | encLZF}, appendLen(nil, uint64(len(packed)))...), appendLen(nil, uint64(size))...), packed...)
	return map[string][]byte{
		"strings":   seal(typeList, string(append(appendLen(nil, 64), bytes.Repeat(lzf(size/64), 64)...))),
		"listpack":  seal(typeSetListpack, string(list)),
		"quicklist": seal(typeListQuicklist2, string(append([]byte{1, 2}, list...))),
		"empty":     seal(typeList, string(append(appendLen(nil, uint64(size/40)), make([]byte, size/40)...))),
		"node":      seal(typeStreamListpacks2, "\x01\x10"+string(appendBigID(nil, stream.ID{MS: 1}))+string(bigNode(size))+"\x01\x01\x00\x01\x00\x00\x00\x01\x00"),
		"groups":    seal(typeStreamListpacks2, "\x00"+strings.Repeat("\x00", 8)+many(size/350, "\x00\x00\x00\x00\x00")),
		"consumers": seal(typeStreamListpacks2, "\x00"+strings.Repeat("\x00", 8)+"\x01\x01g\x00\x00\x00\x00"+many(size/500, strings.Repeat("\x00", 9))),
		"pending":   seal(typeStreamListpacks2, "\x00"+strings.Repeat("\x00", 8)+"\x01\x01g\x00\x00\x00"+pendingEntries(size/1400)),
	}
}

// many is n names, each with what follows it.
func many(n int, rest string) string {
	b := appendLen(nil, uint64(n)) //nolint:gosec // small
	for i := range n {
		b = append(append(b, 3, byte(i>>16), byte(i>>8), byte(i)), rest...)
	}
	return string(b)
}

// pendingEntries is n pending entries of one consumer.
func pendingEntries(n int) string {
	b := appendLen(nil, uint64(n))   //nolint:gosec // small
	ids := appendLen(nil, uint64(n)) //nolint:gosec // small
	for i := range n {
		id := stream.ID{MS: 1, Seq: uint64(i)} //nolint:gosec // small
		b = append(appendMillis(appendBigID(b, id), 0), 1)
		ids = appendBigID(ids, id)
	}
	return string(b) + "\x01\x01c" + strings.Repeat("\x00", 8) + string(ids)
}

// bigNode is a packed node with a field of size letters.
func bigNode(size int) []byte {
	s := stream.New()
	s.Add(stream.Limits{}, stream.ID{MS: 1}, [][]byte{[]byte("f"), bytes.Repeat([]byte{'x'}, size)})
	var pack []byte
	s.EachNode(func(_ stream.ID, p []byte) bool { pack = bytes.Clone(p); return true })
	from, to := bytes.IndexByte(pack, 'x'), bytes.LastIndexByte(pack, 'x')
	var packed []byte
	literal := func(b []byte) {
		for ; len(b) > 0; b = b[min(32, len(b)):] {
			packed = append(append(packed, byte(min(32, len(b))-1)), b[:min(32, len(b))]...)
		}
	}
	literal(pack[:from+1])
	at := from + 1
	for ; at+264 <= to; at += 264 {
		packed = append(packed, 7<<5, 255, 0)
	}
	literal(pack[at:])
	out := append([]byte{0xc0 | encLZF}, appendLen(nil, uint64(len(packed)))...)
	return append(appendLen(out, uint64(len(pack))), packed...)
}

// TestBombs wants a payload that unpacks to more than the limit to be refused
// before that much memory is taken, and to be read when the limit allows it.
func TestBombs(t *testing.T) {
	const size, limit = 3 << 20, 256 << 10
	for name, payload := range bombs(size) {
		if len(payload) > size/30 {
			t.Fatalf("%s: %d bytes", name, len(payload))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseAtMost(payload, limit, nil)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v, want ErrTooLarge", name, err)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 5*limit { // slices grow by copying
			t.Errorf("%s: %d KB were taken with a limit of %d", name, taken>>10, limit>>10)
		}
		if _, err := Parse(payload); err != nil {
			t.Errorf("%s without the limit: %v", name, err)
		}
	}
}

// TestAnnouncedSizes: what a payload announces is added up before any of it is unpacked, and
// what is packed is looked through before there is memory for it.
func TestAnnouncedSizes(t *testing.T) {
	const size = 1 << 20
	torn := lzf(size)
	torn[len(torn)-1], torn[len(torn)-2] = 0xff, 0xe0 // it ends in a reference of another length
	for name, c := range map[string]struct {
		payload []byte
		want    error
	}{
		"more than the limit": {seal(typeList, string(append(appendLen(nil, 64), bytes.Repeat(lzf(size), 64)...))), ErrTooLarge},
		"torn":                {seal(typeString, string(torn)), ErrFormat},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseAtMost(c.payload, 63*size, nil)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > size/4 {
			t.Errorf("%s: %d bytes were taken", name, taken)
		}
	}
	if v, err := ParseAtMost(seal(typeString, string(lzf(size))), size+perElement, nil); err != nil || len(v.Str) != size {
		t.Errorf("a string of as much as the limit: %v", err)
	}
}

// TestExtremeLengths puts extreme numbers in the place of each length: those in front of a
// value, an element, a packed string, and in a list of Redis'. Whatever they are, a payload is
// refused or read without a panic, and takes little memory.
func TestExtremeLengths(t *testing.T) {
	for bits := range 65 {
		for off := range uint64(3) {
			n := uint64(1)<<bits - 1 + off // of 64 bits it wraps
			long := string(binary.BigEndian.AppendUint64([]byte{len64}, n))
			short := string(binary.BigEndian.AppendUint32([]byte{len32}, uint32(n)))                                  //nolint:gosec // cut off
			le, be := binary.LittleEndian.AppendUint32(nil, uint32(n)), binary.BigEndian.AppendUint32(nil, uint32(n)) //nolint:gosec // cut off
			var bodies []string
			for _, l := range []string{long, short} {
				for _, front := range []string{"", "\x01", "\x01\x01", "\x01\x02", "\xc3", "\xc3\x02", "\x01\xc3", "\x01\xc3\x02", "\x01\x02\xc3\x02"} {
					bodies = append(bodies, front+l+"\x00x\x00x\x00\x00\x00\x00", front+l)
				}
			}
			for _, inner := range []string{
				string(le) + "\x01\x00\x01\x01\xff", "\x09\x00\x00\x00" + string(le[:2]) + "\x01\x01\xff", "\x0d\x00\x00\x00\x01\x00\xf0" + string(le) + "\x01\xff", // listpacks
				string(le) + "\x0a\x00\x00\x00\x01\x00\x00\x01a\xff", "\x11\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x80" + string(be) + "\xff", // ziplists
				string(le) + "\x01\x00\x00\x00\x01\x00", "\x02\x00\x00\x00" + string(le) + "\x01\x00", // sets of integers
			} {
				sized := string(appendLen(nil, uint64(len(inner)))) + inner
				bodies = append(bodies, sized, "\x01"+sized, "\x01\x02"+sized)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for kind := range byte(32) {
				for _, body := range bodies {
					if _, err := ParseAtMost(seal(kind, body), 1<<20, nil); err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTooLarge) {
						t.Fatalf("type %d, %q: %v", kind, body, err)
					}
				}
			}
			runtime.ReadMemStats(&after)
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 16<<20 {
				t.Errorf("lengths of %d: %d MB were taken for %d payloads", n, taken>>20, 32*len(bodies))
			}
		}
	}
}
