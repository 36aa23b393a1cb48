//go:build !race

package slow

// Race reports whether the race detector is on: it makes loops slower and allocates.
const Race = false
