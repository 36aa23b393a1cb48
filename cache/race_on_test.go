//go:build race

package cache_test

// raced reports whether the race detector is on, which allocates.
func raced() bool { return true }
