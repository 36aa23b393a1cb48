package lock

import "time"

// For the tests.
var (
	AcquireWaiting = acquireCmd
	VoidCmd        = voidCmd
	LeaveCmd       = leaveCmd
)

// MaxPoll changes how long a waiter relies on a wake-up, and returns what
// changes it back.
func MaxPoll(d time.Duration) (back func()) {
	old := maxPoll
	maxPoll = d
	return func() { maxPoll = old }
}

// Contexts is how many contexts end with the lease.
func (l *Lease) Contexts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.onEnd)
}
