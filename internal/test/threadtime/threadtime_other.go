//go:build !linux

// Package threadtime tells tests how long the processor worked for them: others on the
// machine don't matter then. On this system it is the time of day.
package threadtime

import (
	"testing"
	"time"
)

// Lock does nothing on this system.
func Lock(testing.TB) {}

var start = time.Now()

// Now is the time since the process began.
func Now() time.Duration { return time.Since(start) }
