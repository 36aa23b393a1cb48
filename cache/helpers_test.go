package cache_test

import (
	"os"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
)

// full says that the tests of guarantees run at their full length: CACHE=full.
func full() bool { return os.Getenv("CACHE") == "full" }

// newLocalWorld returns a Client on an engine in the process.
func newLocalWorld(t testing.TB) *redoubt.Client {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{})
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	c, err := redoubt.New(e, redoubt.Options{})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
