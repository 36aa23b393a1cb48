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

// renewal is a lease's entry in the renewer.
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

func (r *renewer) add(l *Lease, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.renewal.over {
		return
	}
	l.renewal.at, l.renewal.queued = at, true
	heap.Push(&r.due, l)
	r.arm()
}

// remove forgets a lease. The timer stays set: it may fire for nothing, which
// costs less than setting it anew for every lock and unlock.
func (r *renewer) remove(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.renewal.over = true
	if l.renewal.queued {
		heap.Remove(&r.due, l.renewal.index)
		l.renewal.queued = false
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
	byNode := make(map[string][]*Lease)
	for len(r.due) > 0 && !r.due[0].renewal.at.After(soon) {
		l := heap.Pop(&r.due).(*Lease)
		l.renewal.queued = false
		node := r.client.Node(l.key)
		byNode[node] = append(byNode[node], l)
	}
	for _, leases := range byNode {
		for batch := range slices.Chunk(leases, maxRenewals) {
			go r.send(batch)
		}
	}
	r.arm()
}

// send renews leases in one pipeline and puts them back.
func (r *renewer) send(leases []*Lease) {
	now := time.Now()
	var cmds []redoubt.Cmd
	leases = slices.DeleteFunc(leases, func(l *Lease) bool {
		// A lease that was extended by hand meanwhile need not be renewed yet.
		if next := l.Deadline().Add(-l.mutex.opts.TTL * 2 / 3); next.After(now.Add(gather)) {
			r.add(l, next)
			return true
		}
		cmds = append(cmds, ExtendCmd(l.key, l.id, l.mutex.opts.TTL))
		return false
	})
	if len(leases) == 0 {
		return
	}
	// A third of the TTL leaves time for more tries, on other connections.
	ctx, cancel := context.WithTimeout(context.Background(), leases[0].mutex.opts.TTL/3)
	defer cancel()
	for i, reply := range r.client.Pipeline(ctx, cmds) {
		l := leases[i]
		held, granted, err := ReadExtend(reply)
		l.mu.Lock()
		l.renewal.err = err
		l.mu.Unlock()
		if err != nil {
			r.add(l, time.Now().Add(l.mutex.opts.TTL/20))
		} else if l.extended(now, held, granted) == nil {
			r.add(l, now.Add(l.mutex.opts.TTL/3))
		}
	}
}

// renewals is a heap of leases by the time of their renewal.
type renewals []*Lease

func (h renewals) Len() int           { return len(h) }
func (h renewals) Less(i, j int) bool { return h[i].renewal.at.Before(h[j].renewal.at) }

func (h renewals) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].renewal.index, h[j].renewal.index = i, j
}

func (h *renewals) Push(x any) {
	l := x.(*Lease)
	l.renewal.index = len(*h)
	*h = append(*h, l)
}

func (h *renewals) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return l
}
