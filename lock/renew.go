package lock

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
)

// A renewer extends leases every third of their TTL. A timer fires when the
// next is due; all that are due within a short time go together, in one
// pipeline for each node of a cluster, each on its own: a dead node holds up
// the renewals on no other.
//
// Rejected: a goroutine and a timer a lease (10,000 locks are 10,000 single
// commands every 10 s, and they drift under load).
type renewer struct {
	client *redoubt.Client

	mu    sync.Mutex
	due   renewals
	timer *time.Timer // nil until the first lease
	next  time.Time   // when timer fires; zero when it isn't set
}

// renewal is a hold's entry in the renewer.
type renewal struct {
	at     time.Time
	index  int   // in the heap, while queued
	queued bool  // waits in the heap; otherwise it is being sent, or over
	over   bool  // the lease is over
	err    error // of the last attempt, nil after a success; guarded by Lease.mu
}

// why completes the sentence "the lease ran out at its deadline".
func (r *renewal) why() string {
	if r.err == nil {
		return ""
	}
	return ": the last renewal failed: " + r.err.Error()
}

// gather is how far ahead of its time a renewal may go along with others.
const gather = 5 * time.Millisecond

// maxRenewals bounds a pipeline of renewals.
const maxRenewals = 512

func (r *renewer) add(h *hold, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.renewal.over {
		return
	}
	h.renewal.at, h.renewal.queued = at, true
	heap.Push(&r.due, h)
	r.arm()
}

// remove forgets a lease. The timer stays set: it may fire for nothing, which
// costs less than setting it anew for every lock and unlock.
func (r *renewer) remove(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.renewal.over = true
	if h.renewal.queued {
		heap.Remove(&r.due, h.renewal.index)
		h.renewal.queued = false
	}
}

// arm sets the timer if it would fire later than the next renewal is due.
// r.mu is held.
func (r *renewer) arm() {
	if len(r.due) == 0 {
		return
	}
	at := r.due[0].renewal.at
	if !r.next.IsZero() && !at.Before(r.next) {
		return
	}
	r.next = at
	if r.timer == nil {
		r.timer = time.AfterFunc(time.Until(at), r.fire)
		return
	}
	r.timer.Reset(time.Until(at))
}

// fire sends what is due.
func (r *renewer) fire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = time.Time{}
	soon := time.Now().Add(gather)
	byNode := make(map[string][]*hold)
	for len(r.due) > 0 && !r.due[0].renewal.at.After(soon) {
		h := heap.Pop(&r.due).(*hold)
		h.renewal.queued = false
		node := r.client.Node(h.key())
		byNode[node] = append(byNode[node], h)
	}
	for _, holds := range byNode {
		for batch := range slices.Chunk(holds, maxRenewals) {
			go r.send(batch)
		}
	}
	r.arm()
}

// send renews leases in one pipeline and puts them back.
func (r *renewer) send(holds []*hold) {
	now, ttl := time.Now(), holds[0].lease.family.opts.TTL
	var cmds []redoubt.Cmd
	holds = slices.DeleteFunc(holds, func(h *hold) bool {
		// A lease that was extended by hand meanwhile need not be renewed yet.
		if next := h.until().Add(-ttl * 2 / 3); next.After(now.Add(gather)) {
			r.add(h, next)
			return true
		}
		cmds = append(cmds, h.kind.extend(h.keys, h.id, ttl))
		return false
	})
	if len(holds) == 0 {
		return
	}
	// A third of the TTL leaves time for more tries, on other connections.
	ctx, cancel := context.WithTimeout(context.Background(), ttl/3)
	defer cancel()
	for i, reply := range r.client.Pipeline(ctx, cmds) {
		h := holds[i]
		held, granted, err := ReadExtend(reply)
		h.lease.mu.Lock()
		h.renewal.err = err
		h.lease.mu.Unlock()
		if err != nil {
			r.add(h, time.Now().Add(ttl/20))
		} else if h.extended(now, held, granted) == nil {
			r.add(h, now.Add(ttl/3))
		}
	}
}

// until is the hold's own deadline.
func (h *hold) until() time.Time {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return h.deadline
}

// renewals is a heap of leases by the time of their renewal.
type renewals []*hold

func (h renewals) Len() int           { return len(h) }
func (h renewals) Less(i, j int) bool { return h[i].renewal.at.Before(h[j].renewal.at) }

func (h renewals) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].renewal.index, h[j].renewal.index = i, j
}

func (h *renewals) Push(x any) {
	next := x.(*hold)
	next.renewal.index = len(*h)
	*h = append(*h, next)
}

func (h *renewals) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
