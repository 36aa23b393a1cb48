package keyslot_test

import (
	"fmt"
	"testing"

	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// TestOf compares with the specification's way, a bit at a time.
func TestOf(t *testing.T) {
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
		return crc % keyslot.Count
	}
	for key, want := range map[string]uint16{"": 0, "123456789": 0x31c3, "foo": 12182, "{foo}bar": 12182, "a{foo}{bar}": 12182} {
		if got := keyslot.Of([]byte(key)); got != want {
			t.Errorf("the slot of %q is %d; want %d", key, got, want)
		}
	}
	if keyslot.Of([]byte("{}a")) == keyslot.Of([]byte("{}b")) {
		t.Error("an empty tag counts")
	}
	r, steps := randtest.Rand(t), randtest.Watch(t)
	for n := range 300 {
		b := make([]byte, n)
		for i := range b {
			if b[i] = byte(r.Uint32()); b[i] == '{' {
				b[i] = 0
			}
		}
		steps.Begin(func() string { return fmt.Sprintf("the slot of %q", b) })
		want := slow(b)
		tagged := append(append([]byte("x{"), b...), "}y{z}"...)
		if n > 0 && b[0] == '}' {
			continue
		}
		if got := keyslot.Of(b); got != want {
			t.Fatalf("Of(%q) = %d, want %d", b, got, want)
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
		if got := keyslot.Of(tagged); got != want {
			t.Fatalf("Of(%q) = %d, want %d", tagged, got, want)
		}
	}
}

func BenchmarkOf(b *testing.B) {
	key := []byte("bench:{user:1234567}:counter")
	for b.Loop() {
		keyslot.Of(key)
	}
}
