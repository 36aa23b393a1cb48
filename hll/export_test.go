package hll

import (
	"time"

	"github.com/redoubt-go/redoubt"
)

// NewWithClock is New with the clock of a test.
func NewWithClock(client *redoubt.Client, opts Options, now func() time.Time) (*Visitors, error) {
	return newVisitors(client, opts, now)
}

// Turn makes v read the clock.
func (v *Visitors) Turn() { v.turn() }

// Current returns when the current period of v begins, in s since 1970.
func (v *Visitors) Current() int64 { return v.current.Load().start }

// Bytes returns the size of all unsent counts.
func (v *Visitors) Bytes() int64 { return v.bytes.Load() }
