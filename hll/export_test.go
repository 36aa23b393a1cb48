package hll

import "time"

// SetClock sets the clock of v. It is called before anything else.
func (v *Visitors) SetClock(now func() time.Time) { v.now = now }

// Bytes returns what all that waits to be sent takes.
func (v *Visitors) Bytes() int64 { return v.bytes.Load() }
