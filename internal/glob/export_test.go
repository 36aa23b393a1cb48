package glob

import "math/rand/v2"

// Draw returns up to n bytes of an alphabet.
func Draw(r *rand.Rand, n int, of string) []byte {
	b := make([]byte, r.IntN(n+1))
	for i := range b {
		b[i] = of[r.IntN(len(of))]
	}
	return b
}
