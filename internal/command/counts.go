package command

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// MaxNames is how many queues have counts of their own, and how many policies. All others together have OtherNames for a
// name.
const (
	MaxNames   = 100
	OtherNames = "other"
)

// Counts are what the commands of this process have done. Calls of the library don't show in them.
type Counts struct {
	Locks, Semaphores LockCounts
	// Limits are the decisions by command, like LIMIT.TAKE.
	Limits map[string]Decided
	// Policies are the decisions about limits with equal names up to the first colon. A name without a colon has none.
	Policies map[string]Decided
	// Queues are by name.
	Queues map[string]QueueCounts
}

// LockCounts count leases.
type LockCounts struct {
	Acquired uint64
	Refused  uint64 // not free, or not in the time of BLOCK
	Released uint64
	Lost     uint64 // over before their EXTEND or RELEASE
	// HandOver is the time from the wake-up by a release to the lease of the waiter.
	HandOver latency.Histogram
}

// QueueCounts count messages of one queue.
type QueueCounts struct {
	Put      uint64
	Taken    uint64
	Retried  uint64 // of the taken: not for the first time
	Acked    uint64
	Failed   uint64 // NACK, to be retried or dead after the last attempt
	Killed   uint64 // NACK with DEAD
	Returned uint64 // NACK with SNOOZE
	Lost     uint64 // over before their ACK or NACK
	// Lateness is how long messages were ready before they were taken.
	Lateness latency.Histogram
}

// counts count Counts.
type counts struct {
	locks, semaphores lockCounter
	queues            byName[queueCounter]
}

// Counts returns what the commands have done in this process.
func (env *Env) Counts() Counts {
	c := Counts{Locks: env.counts.locks.get(), Semaphores: env.counts.semaphores.get(), Limits: map[string]Decided{}, Policies: map[string]Decided{}, Queues: map[string]QueueCounts{}}
	for i, name := range countedLimits {
		n := &env.decisions.by[i]
		c.Limits[name] = Decided{n[0].Load(), n[1].Load()}
	}
	env.decisions.policies.all(func(policy string, n *[2]atomic.Uint64) {
		if d := (Decided{n[0].Load(), n[1].Load()}); d != (Decided{}) {
			c.Policies[policy] = d
		}
	})
	env.counts.queues.all(func(name string, n *queueCounter) {
		if q := n.get(); name != OtherNames || q != (QueueCounts{}) {
			c.Queues[name] = q
		}
	})
	return c
}

type lockCounter struct {
	acquired, refused, released, lost atomic.Uint64
	handOver                          latency.Shared
}

func (c *lockCounter) get() LockCounts {
	n := LockCounts{Acquired: c.acquired.Load(), Refused: c.refused.Load(), Released: c.released.Load(), Lost: c.lost.Load()}
	c.handOver.AddTo(&n.HandOver)
	return n
}

// extended counts the result of an EXTEND.
func (c *lockCounter) extended(held bool, err error) { //nolint:revive // the parameter is the result
	if err == nil && !held {
		c.lost.Add(1)
	}
}

// ended counts the result of a RELEASE.
func (c *lockCounter) ended(held bool, err error) { //nolint:revive // the parameter is the result
	if err == nil && held {
		c.released.Add(1)
	}
	c.extended(held, err)
}

// byName are counters by name, for the first MaxNames names.
type byName[C any] struct {
	known  sync.Map // *C
	names  atomic.Int64
	others C
}

// A queueCounter counts QueueCounts.
type queueCounter struct {
	put, taken, retried, acked, failed, killed, returned, lost atomic.Uint64
	lateness                                                   latency.Shared
}

// of returns the counter of a name.
func (c *byName[C]) of(name string) *C {
	if n, ok := c.known.Load(name); ok {
		return n.(*C) //nolint:forcetypeassert // nothing else is stored
	}
	if name == OtherNames || c.names.Load() >= MaxNames {
		return &c.others
	}
	n, known := c.known.LoadOrStore(strings.Clone(name), new(C))
	if !known {
		c.names.Add(1) // a few more than MaxNames at most
	}
	return n.(*C) //nolint:forcetypeassert // as above
}

// all calls f for each counter, that of the others too.
func (c *byName[C]) all(f func(name string, c *C)) {
	c.known.Range(func(name, n any) bool {
		f(name.(string), n.(*C)) //nolint:forcetypeassert // as above
		return true
	})
	f(OtherNames, &c.others)
}

func (c *queueCounter) get() QueueCounts {
	n := QueueCounts{
		Put: c.put.Load(), Taken: c.taken.Load(), Retried: c.retried.Load(), Acked: c.acked.Load(),
		Failed: c.failed.Load(), Killed: c.killed.Load(), Returned: c.returned.Load(), Lost: c.lost.Load(),
	}
	c.lateness.AddTo(&n.Lateness)
	return n
}

// took counts the messages of a take. A repeated take has been counted.
func (c *queueCounter) took(p *wire.Pumped) {
	if p.Again {
		return
	}
	for i := range p.Taken {
		t := &p.Taken[i]
		c.taken.Add(1)
		if t.Failures > 0 {
			c.retried.Add(1)
		}
		if !t.Since.IsZero() {
			c.lateness.Observe(max(0, p.Now.Sub(t.Since)), 1)
		}
	}
}

// settled counts what a Pump with these acks and nacks has settled.
func (c *queueCounter) settled(asked wire.Pump, refused int) {
	c.lost.Add(uint64(refused))                                      //nolint:gosec // not negative
	if n := len(asked.Acks) + len(asked.Results) - refused; n >= 0 { // acks and nacks don't come together
		c.acked.Add(uint64(n)) //nolint:gosec // not negative
	}
	if len(asked.Nacks) == 0 || refused > 0 {
		return
	}
	switch asked.Nacks[0].Kind {
	case wire.Retry:
		c.failed.Add(1)
	case wire.Kill:
		c.killed.Add(1)
	default:
		c.returned.Add(1)
	}
}

// countedLimits are the commands whose decisions are counted.
var countedLimits = [...]string{"CL.THROTTLE", "LIMIT.TAKE", "LIMIT.WINDOW", "LIMIT.QUOTA", "LIMIT.RESERVE", "LIMIT.WAIT", "LIMIT.USE"}
