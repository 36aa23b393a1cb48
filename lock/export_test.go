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

// InLine is how many callers stand in the client's line for key.
func (m *Mutex) InLine(key string) int {
	m.lines.mu.Lock()
	defer m.lines.mu.Unlock()
	if m.lines.byKey[key] == nil {
		return 0
	}
	return len(m.lines.byKey[key].turns)
}
