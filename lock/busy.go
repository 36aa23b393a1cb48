package lock

import (
	"context"
	"fmt"
	"time"
)

// A Busy is the holder of a lock that could not be acquired. It is a result and not a
// fault: the caller does something else, fails with [Busy.Err], or waits with
// [Busy.Wait].
type Busy struct {
	// Name is the lock's.
	Name string
	// Remaining is how long the holder's lease lasts if it is not renewed.
	Remaining time.Duration
	// Token is the holder's fencing token.
	Token int64
	// Label is the holder's, as in [Options].
	Label string

	wait func(ctx context.Context) (*Lease, error)
}

// Err returns an error that matches [ErrBusy] and names the holder.
func (b *Busy) Err() error {
	by := ""
	if b.Label != "" {
		by = fmt.Sprintf(" by %q", b.Label)
	}
	return fmt.Errorf("%w: %q is held%s for another %v unless renewed", ErrBusy, b.Name, by, b.Remaining.Round(time.Millisecond))
}

// Wait acquires the lock as the Acquire of the same type does: it waits until ctx ends.
func (b *Busy) Wait(ctx context.Context) (*Lease, error) { return b.wait(ctx) }
