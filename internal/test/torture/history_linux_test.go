package torture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// The primitives of events. A worker drives each by a goroutine of its own.
const (
	locks      = "lock"
	fair       = "fair" // locks with waiters in order
	semaphores = "semaphore"
	quorums    = "quorum"   // locks on a majority of servers
	register   = "register" // fenced by the tokens of locks
	stocks     = "stock"
	limits     = "limit"
	queues     = "queue"
	caches     = "cache"
	visits     = "visit"    // of pages that are counted by HyperLogLogs
	positions  = "position" // of a member of a geo index
	sets       = "set"      // fields of hashes that expire, bits, items of filters, elements of lists
)

// The acts of a worker. The comments say what the fields of an event mean.
const (
	// acquired: the worker got a lease with the token N. It is valid until Until, unless the
	// worker can't know.
	acquired = "acquired"
	// extended: the lease with the token N was valid, and is now until Until.
	extended = "extended"
	// ended: the lease with the token N is over. Call is when its holder stopped relying on it.
	ended = "ended"
	// held: somebody has a lease with the token N, or nobody if N is 0.
	held = "held"

	// arrived: in the trial ID of a fair lock, the waiter M has asked, and waits or has been served by Return. In such a
	// trial the other events of a lease have its ID, and M of acquired is the waiter, 0 if it did not wait.
	arrived = "arrived"

	// wrote: the value M was written with the token N. OK: it was let through; otherwise
	// Answer is the largest token. is: the value that was read is Answer.
	wrote, is = "wrote", "is"

	// reserved, committed and cancelled: of the reservation ID, N units; Answer is the status.
	// set: the total is set to N. counted: N units are available, and M are sold.
	reserved, committed, cancelled, set, counted = "reserved", "committed", "cancelled", "set", "counted"

	// asked: for one token of a limit. OK: it was given.
	asked = "asked"

	// put, took and acked: the message ID. Until is when the lease of a take ends at the earliest.
	// acked and OK: the message was still held. returned: it was handed back.
	put, took, acked, returned = "put", "took", "acked", "returned"

	// visited: a page, by the visitor N. M views count. tallied: N visitors are counted, and M views; -1 is unknown.
	visited, tallied = "visited", "tallied"

	// placed, moved and removed: the member is at the place N now, or not in the index. OK of placed: it was not there
	// before; of the others: it was. found: the member is at the place N, 0: not in the area M.
	placed, moved, removed, found = "placed", "moved", "removed", "found"

	// invalidated: what was cached before the value N. got: a Get gave the value N. M is 1 if it was by the cache
	// with the local level of the worker, and then Until is the time to which the worker has heard what the server
	// of the key publishes, 0 if it doesn't know.
	invalidated, got = "invalidated", "got"

	// added: N to a set of the kind ID. M is 1 if it was by the wire.
	added = "added"
)

// An event is one call of a worker, or what it learnt. Times are of the machine's monotonic
// clock, which all processes share.
type event struct {
	Worker    int    `json:"w"`
	Seq       int    `json:"s"` // within the worker; a line replaces an earlier one with the same
	Primitive string `json:"p"`
	Name      string `json:"n"`
	What      string `json:"o"`
	ID        string `json:"i,omitempty"`
	N         int64  `json:"a,omitempty"`
	M         int64  `json:"b,omitempty"`
	OK        bool   `json:"k,omitempty"`
	Answer    int64  `json:"r,omitempty"`
	Until     int64  `json:"u,omitempty"`
	Call      int64  `json:"c"`
	Return    int64  `json:"d,omitempty"` // 0: the worker never learnt what became of the call
	Never     bool   `json:"x,omitempty"` // the call had no effect
}

func (e event) String() string {
	text, _ := json.Marshal(e) // It has no field that could fail.
	return string(text)
}

// now reads the clock that all processes of the machine share, in ns.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Linux has it
	}
	return t.Nano()
}

// A pen writes down the events of a worker. It writes a call before it is made, so that a worker
// that is killed leaves a call of unknown outcome behind.
type pen struct {
	worker int
	out    io.Writer

	mu  sync.Mutex
	seq int
}

func (p *pen) write(e event) {
	line := append([]byte(e.String()), '\n')
	if _, err := p.out.Write(line); err != nil {
		panic(fmt.Sprint("the parent is gone: ", err))
	}
}

// begin writes that a call begins, now unless e says when.
func (p *pen) begin(e event) event {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq++
	e.Worker, e.Seq = p.worker, p.seq
	if e.Call == 0 {
		e.Call = now()
	}
	p.write(e)
	return e
}

// amend writes an event again, which [pen.begin] returned.
func (p *pen) amend(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(e)
}

// end writes what became of the call that [pen.begin] returned: nil is an answer.
func (p *pen) end(e event, err error) {
	switch {
	case err == nil:
		e.Return = now()
	case never(err):
		e.Never = true
	default:
		return // unknown, as it was written
	}
	p.amend(e)
}

// note writes down an event that is no call.
func (p *pen) note(e event) {
	if e.Call == 0 {
		e.Call = now()
	}
	e.Return = max(e.Return, e.Call)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq++
	e.Worker, e.Seq = p.worker, p.seq
	p.write(e)
}

// A history is what all workers of a round wrote.
type history struct {
	mu     sync.Mutex
	events map[[2]int]event
}

// read takes a line of a worker.
func (h *history) read(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events[[2]int{e.Worker, e.Seq}] = e
	return nil
}

// of returns the events of a primitive that may have had an effect, by name and in the order of
// their calls.
func (h *history) of(primitive string) map[string][]event {
	h.mu.Lock()
	defer h.mu.Unlock()
	byName := map[string][]event{}
	for _, e := range h.events {
		if e.Primitive == primitive && !e.Never {
			byName[e.Name] = append(byName[e.Name], e)
		}
	}
	for _, events := range byName {
		slices.SortFunc(events, func(a, b event) int {
			return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Seq, b.Seq))
		})
	}
	return byName
}

// count returns how many calls were made and how many of them were answered.
func (h *history) count() (calls, answered int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		calls++
		if e.Return != 0 {
			answered++
		}
	}
	return calls, answered
}
