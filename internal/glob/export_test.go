package glob

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seeded returns numbers by chance, from GLOB_SEED if that is set.
func Seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("GLOB_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("GLOB_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Draw returns up to n bytes of an alphabet.
func Draw(r *rand.Rand, n int, of string) []byte {
	b := make([]byte, r.IntN(n+1))
	for i := range b {
		b[i] = of[r.IntN(len(of))]
	}
	return b
}
