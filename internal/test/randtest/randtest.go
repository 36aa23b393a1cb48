// Package randtest makes random tests repeatable, and ends random tests that hang.
//
// A random test takes its choices from [Rand], or from the number of [Seed]. The seed
// goes to standard error before the first choice, past the testing package, which
// loses the log of a test that panics or is killed by -timeout. To repeat a test:
//
//	SEED=123 go test ./internal/engine -run '^TestAnyArguments$'
//
// Each step of a random test has a time to keep: [Limit]. The clients of
// internal/test/clienttest watch their commands; any other test names its steps by
// [Steps.Begin]. A random test without a step fails.
package randtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seed returns a new seed, or the number in the environment's SEED, and prints it with
// the name of the test.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	n := rand.Uint64()
	if text := os.Getenv("SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("SEED is %q; want a number from 0 to %d", text, uint64(1<<64-1))
		}
	}
	fmt.Fprintf(os.Stderr, "%s: SEED=%d\n", tb.Name(), n)
	named(tb, n)
	return n
}

// Rand returns a source of random choices that the seed of the test determines. It must
// not be used concurrently: a test with several goroutines gives each of them
// rand.NewPCG(n, i) with the n of one [Seed].
func Rand(tb testing.TB) *rand.Rand {
	tb.Helper()
	return rand.New(rand.NewPCG(Seed(tb), 0))
}
