//go:build !linux

package lua

import "testing"

import "time"

// Elsewhere the time is the clock's.
func lockThread(*testing.T) {}

var processStart = time.Now()

func threadTime() time.Duration { return time.Since(processStart) }
