package lock

import (
	"time"

	"github.com/redoubt-go/redoubt"
)

// For the tests.
var (
	AcquireWaiting = func(key, id string, ttl time.Duration, label, waiter string) redoubt.Cmd {
		return acquireCmd([]string{key}, id, ttl, label, waiter)
	}
	FairCmd = func(key, id, waiter string) redoubt.Cmd {
		return fair{}.acquire([]string{key}, Request{ID: id, TTL: time.Minute}, waiter)
	}
	FairLeaveCmd  = func(key, id string) redoubt.Cmd { return fairLeaveCmd([]string{key}, id) }
	FairVoidCmd   = func(key, id string) redoubt.Cmd { return fair{}.release([]string{key}, id, "", true) }
	VoidCmd       = func(key, id string) redoubt.Cmd { return releaseCmd([]string{key}, id, "", true) }
	QuorumExtend  = func(key, id string, ttl time.Duration) redoubt.Cmd { return quorate{}.extend([]string{key}, id, ttl) }
	PermitWaiting = func(keys []string, limit int, r Request, waiter string) redoubt.Cmd {
		return permit{limit}.acquire(keys, r, waiter)
	}
	PermitEnd = func(keys []string, limit int, id, waiter string, void bool) redoubt.Cmd {
		return permit{limit}.release(keys, id, waiter, void)
	}
	ClaimCmd    = func(key, id string) redoubt.Cmd { return writing{}.claim([]string{key}, id) }
	ReadWaiting = func(keys []string, r Request, waiter string) redoubt.Cmd {
		return reading{}.acquire(keys, r, waiter)
	}
	ForcePermit = func(keys []string, id string) redoubt.Cmd { return forcePermitCmd(keys, member(id)) }

	LatchWaitCmd = latchWaitCmd
	Slot         = func(name string) uint16 { return target{keys: []string{"p:{" + name + "}:lock"}}.slot() }
	RWEnd        = rwReleaseCmd
	LeaveCmd     = func(key, waiter string) redoubt.Cmd { return releaseCmd([]string{key}, "", waiter, false) }
)

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
	holds := make([]*hold, len(leases))
	for i, l := range leases {
		holds[i] = &l.one
		l.mu.Lock()
		l.one.deadline = time.Now().Add(ttl / 2)
		l.mu.Unlock()
		r.mu.Lock()
		r.take(&l.one.renewal.task)
		r.mu.Unlock()
	}
	r.send(holds, ttl)
}

// Contexts is how many contexts end with the lease.
func (l *Lease) Contexts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.onEnd)
}

// InLine is how many callers stand in the client's line for key.
func (m *Mutex) InLine(key string) int {
	m.family.lines.mu.Lock()
	defer m.family.lines.mu.Unlock()
	if m.family.lines.byKey[key] == nil {
		return 0
	}
	return len(m.family.lines.byKey[key].turns)
}
