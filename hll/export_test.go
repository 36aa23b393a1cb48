package hll

import (
	"time"

	"github.com/redoubt-go/redoubt"
)

// NewWithClock is New with a clock of the test's.
func NewWithClock(client *redoubt.Client, opts Options, now func() time.Time) (*Visitors, error) {
	return newVisitors(client, opts, now)
}

// Turn has v look at the clock.
func (v *Visitors) Turn() { v.turn() }

// Current returns when the period begins that v counts in, in s since 1970.
func (v *Visitors) Current() int64 { return v.current.Load().start }

// Bytes returns what all that waits to be sent takes.
func (v *Visitors) Bytes() int64 { return v.bytes.Load() }
