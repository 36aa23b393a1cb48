// Package sizeclass tells how many bytes Go's allocator takes for a value.
package sizeclass

import "math/bits"

// Of returns how many bytes Go's allocator takes for n, nearly: it rounds up to one of its size classes.
func Of(n int) int64 {
	step := 8
	switch {
	case n > 1<<15:
		step = 1 << 13
	case n > 128:
		step = 1 << (bits.Len(uint(n-1)) - 4) //nolint:gosec // n is more than 0
	case n > 32:
		step = 16
	}
	return int64((n + step - 1) &^ (step - 1))
}
