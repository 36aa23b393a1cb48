package rdb

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
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
