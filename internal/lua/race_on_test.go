//go:build race

package lua

// raced reports whether the race detector is on.
func raced() bool { return true }
