package hyll_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redoubt-go/redoubt/internal/hyll"
)

// An element that is made for a register and a count has them.
func TestElement(t *testing.T) {
	for count := byte(1); count <= 51; count++ {
		for _, register := range []int{0, 1, 8191, 12345, hyll.Registers - 1} {
			r, c := hyll.Position([]byte(hyll.Element(register, count)))
			if r != register || c != count {
				t.Errorf("the element of %d, %d has %d, %d", register, count, r, c)
			}
		}
	}
}

// Encode gives what adding the elements one by one gives.
func TestEncode(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 10, 100, 700, 1500, 3000, 20_000, 1_000_000} {
		var registers [hyll.Registers]byte
		added := hyll.New()
		for range n {
			r, c := hyll.Position(fmt.Append(nil, rng.Uint64()))
			registers[r] = max(registers[r], c)
			var ok bool
			if added, _, ok = hyll.Set(added, r, c); !ok {
				t.Fatal("corrupt")
			}
		}
		b := hyll.Encode(&registers)
		var back [hyll.Registers]byte
		if !hyll.Is(b) || !hyll.Max(&back, b) || back != registers {
			t.Fatalf("%d elements are not what they were", n)
		}
		count, _ := hyll.Count(b)
		want, _ := hyll.Count(added)
		if count != want || hyll.EstimateOf(&registers) != want {
			t.Errorf("%d elements count as %d and %d, want %d", n, count, hyll.EstimateOf(&registers), want)
		}
		if hyll.Dense(b) && n < 1000 || !hyll.Dense(b) && n > 3000 {
			t.Errorf("%d elements: dense is %v", n, hyll.Dense(b))
		}
	}
	// The sparse form doesn't have this value.
	registers := [hyll.Registers]byte{7: 33}
	var back [hyll.Registers]byte
	if b := hyll.Encode(&registers); !hyll.Max(&back, b) || back != registers {
		t.Error("33 is lost")
	}
}

// No value of a key causes a panic.
func FuzzMax(f *testing.F) {
	registers := [hyll.Registers]byte{1: 2, 3: 4}
	f.Add(hyll.Encode(&registers))
	f.Add(hyll.New())
	f.Fuzz(func(_ *testing.T, b []byte) {
		var max [hyll.Registers]byte
		if hyll.Is(b) && hyll.Max(&max, b) {
			hyll.EstimateOf(&max)
		}
	})
}
