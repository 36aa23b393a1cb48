package engine

import (
	"math/rand/v2"
	"testing"
)

// TestSlot compares with the specification's way, a bit at a time.
func TestSlot(t *testing.T) {
	slow := func(b []byte) (crc uint16) {
		for _, x := range b {
			crc ^= uint16(x) << 8
			for range 8 {
				if crc&0x8000 != 0 {
					crc = crc<<1 ^ 0x1021
				} else {
					crc <<= 1
				}
			}
		}
		return crc % slotCount
	}
	if got := keySlot([]byte("123456789")); got != 0x31c3 {
		t.Errorf("the specification's example has slot %#x, want 0x31c3", got)
	}
	for n := range 300 {
		b := make([]byte, n)
		for i := range b {
			if b[i] = byte(rand.Uint32()); b[i] == '{' {
				b[i] = 0
			}
		}
		want := slow(b)
		tagged := append(append([]byte("x{"), b...), "}y{z}"...)
		if n > 0 && b[0] == '}' {
			continue
		}
		if got := keySlot(b); got != want {
			t.Fatalf("keySlot(%q) = %d, want %d", b, got, want)
		}
		for i, c := range b {
			if c == '}' {
				want = slow(b[:i])
				break
			}
		}
		if n == 0 {
			want = slow(tagged) // an empty tag is none
		}
		if got := keySlot(tagged); got != want {
			t.Fatalf("keySlot(%q) = %d, want %d", tagged, got, want)
		}
	}
}

func BenchmarkSlot(b *testing.B) {
	for b.Loop() {
		keySlot(benchKey[1])
	}
}
