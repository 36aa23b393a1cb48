package main

import "testing"

// TestUncountedMemory: the limit of Go's collector does not count memory of clients twice, even if it was allocated or
// freed since the collector ran.
func TestUncountedMemory(t *testing.T) {
	const mb = 1 << 20
	var u uncounted
	for i, s := range []struct {
		cycle            uint64
		live, held, want int64
	}{
		{1, 20 * mb, 0, 20 * mb},
		{1, 20 * mb, 200 * mb, 20 * mb},
		{2, 280 * mb, 256 * mb, 20 * mb}, // what clients hold is alive
		{3, 280 * mb, 0, 20 * mb},        // they gave it back after the collector ran
		{4, 280 * mb, 0, 20 * mb},        // they had more between two looks
		{5, 22 * mb, 0, 22 * mb},
		{6, 300 * mb, 0, 22 * mb},
		{7, 300 * mb, 0, 22 * mb},
		{8, 300 * mb, 0, 22 * mb},
		{9, 300 * mb, 0, 300 * mb}, // it is somebody else's
	} {
		if got := u.after(s.cycle, s.live, s.held); got != s.want {
			t.Errorf("step %d: %d MiB, want %d", i, got/mb, s.want/mb)
		}
	}
}
