package engine

import "time"

// A Clock is where the engine takes the time from. Tests inject one that stands still until they
// move it.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own once d has passed.
	AfterFunc(d time.Duration, f func()) Timer
}

// A Timer is a call that a [Clock] will make. It is an alias, so that the Clock of the public
// package has the same methods.
type Timer = interface{ Stop() bool }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
