package lock

import (
	"time"
)

// Slot is the slot of the lock called name.
func Slot(name string) uint16 { return target{keys: []string{"p:{" + name + "}:lock"}}.slot() }

// Confirmed is how many masters are known to have a lease on several.
func Confirmed(l *Lease) int { return l.confirmed() }

// MaxPoll changes how long a waiter relies on a wake-up, and returns what
// changes it back.
func MaxPoll(d time.Duration) (back func()) {
	old := maxPoll
	maxPoll = d
	return func() { maxPoll = old }
}

// Renew renews leases of one family as when they are due.
func Renew(leases []*Lease) {
	r, ttl := leases[0].family.renewer, leases[0].family.opts.TTL
	parts := make([]*heldLease, len(leases))
	for i, l := range leases {
		parts[i] = &l.one
		l.mu.Lock()
		l.one.deadline = time.Now().Add(ttl / 2)
		l.mu.Unlock()
		r.mu.Lock()
		r.take(&l.one.renewal.task)
		r.mu.Unlock()
	}
	r.send(parts, ttl)
}

// Contexts is how many contexts end with the lease.
func (l *Lease) Contexts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.onEnd)
}

// Waiting is how many callers wait in the queue of the client for key.
func (m *Mutex) Waiting(key string) int {
	m.family.queues.mu.Lock()
	defer m.family.queues.mu.Unlock()
	if m.family.queues.byKey[key] == nil {
		return 0
	}
	return len(m.family.queues.byKey[key].turns)
}
