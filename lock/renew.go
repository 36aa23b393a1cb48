package lock

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
)

// A renewer renews all leases of a client, of every kind, and ends them at their deadlines. It
// has one timer and a heap of tasks.
//
// Renewals that are due for one node of a cluster are sent together, in pipelines that are
// bounded in commands and bytes. Each node has senders of its own, so that a dead or slow
// node delays no renewals on the others. It has several, so that one broken connection
// delays no renewals on a node that works.
//
// A lease is renewed at a random time between a quarter and a third of its TTL, so that ten
// thousand leases that were acquired at once are not all renewed at once.
//
// Rejected: a goroutine and timers for each lease (10,000 locks would send 10,000 single
// commands every 10 s, and drift under load); one pipeline after the other over all nodes
// (the last node would wait for the slowest one).
type renewer struct {
	client *redoubt.Client

	mu     sync.Mutex
	agenda agenda
	timer  *time.Timer // nil until the first lease
	next   time.Time   // when timer fires; zero when it isn't set
	routes map[route]*queue
}

// A task is due at a time: it renews part or, when that is nil, checks whether lease has
// ended.
type task struct {
	at    time.Time
	index int // in the agenda, counted from 1; 0: not in it
	lease *Lease
	part  *heldLease
}

// renewal is a part's state in the renewer.
type renewal struct {
	task

	over bool  // no more renewals
	err  error // of the last attempt, nil after a success; guarded by Lease.mu
}

// why completes the sentence "the lease ran out at its deadline".
func (r *renewal) why() string {
	if r.err == nil {
		return ""
	}
	return ": the last renewal failed: " + r.err.Error()
}

// A route is a node and a timeout: its renewals can be sent together.
type route struct {
	node string
	ttl  time.Duration
}

// A queue is the renewals that are due on one route.
type queue struct {
	parts   []*heldLease
	senders int
}

const (
	// maxRenewals and maxRenewalBytes bound a pipeline of renewals, which the server
	// runs at one go.
	maxRenewals     = 128
	maxRenewalBytes = 64 << 10
	// maxSenders is how many pipelines may be under way on one route.
	maxSenders = 4
)

// renewerKey is where a client keeps its renewer.
type renewerKey struct{}

func renewerOf(client *redoubt.Client) *renewer {
	return client.Shared(renewerKey{}, func() any {
		return &renewer{client: client, routes: make(map[route]*queue)}
	}).(*renewer)
}

// renewAt is when to renew a lease that was confirmed at sent.
func renewAt(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(ttl/3 - rand.N(ttl/12+1))
}

// gather is how early a renewal may be sent together with others.
func gather(ttl time.Duration) time.Duration { return min(ttl/100, 100*time.Millisecond) }

// add renews h at the given time.
func (r *renewer) add(h *heldLease, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !h.renewal.over {
		h.renewal.part, h.renewal.lease = h, h.lease
		r.put(&h.renewal.task, at)
	}
}

// remove ends the renewals of a part. The timer stays set: firing in vain costs less than
// setting it again for every lock and unlock.
func (r *renewer) remove(h *heldLease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.renewal.over = true
	r.take(&h.renewal.task)
}

// watch checks l at the given time, or earlier if it was to do so already.
func (r *renewer) watch(l *Lease, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.watch.index == 0 || at.Before(l.watch.at) {
		l.watch.lease = l
		r.put(&l.watch, at)
	}
}

func (r *renewer) unwatch(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(&l.watch)
}

// put enters e, or moves it. r.mu is held.
func (r *renewer) put(e *task, at time.Time) {
	e.at = at
	if e.index > 0 {
		heap.Fix(&r.agenda, e.index-1)
	} else {
		heap.Push(&r.agenda, e)
	}
	r.arm()
}

// take removes e if it is there. r.mu is held.
func (r *renewer) take(e *task) {
	if e.index > 0 {
		heap.Remove(&r.agenda, e.index-1)
	}
}

// arm sets the timer if a task is due before it fires. r.mu is held.
func (r *renewer) arm() {
	if len(r.agenda) == 0 {
		return
	}
	at := r.agenda[0].at
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

// fire runs the due tasks.
func (r *renewer) fire() {
	var renew []*heldLease
	var over []*Lease
	r.mu.Lock()
	r.next = time.Time{}
	now := time.Now()
	for len(r.agenda) > 0 {
		e := r.agenda[0]
		early := time.Duration(0)
		if e.part != nil {
			early = gather(e.part.ttl())
		}
		if e.at.Sub(now) > early {
			break
		}
		heap.Pop(&r.agenda)
		if e.part != nil {
			renew = append(renew, e.part)
		} else {
			over = append(over, e.lease)
		}
	}
	r.arm()
	r.mu.Unlock()

	r.renew(renew)
	for _, l := range over {
		l.expire()
	}
}

// renew hands parts to the senders of their nodes.
func (r *renewer) renew(parts []*heldLease) {
	routes := make([]route, len(parts))
	for i, h := range parts {
		routes[i] = route{r.client.Node(h.key()), h.ttl()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, to := range routes {
		if r.routes[to] == nil {
			r.routes[to] = new(queue)
		}
		r.routes[to].parts = append(r.routes[to].parts, parts[i])
	}
	for to, q := range r.routes {
		for n := len(q.parts); n > 0 && q.senders < maxSenders; n -= maxRenewals {
			q.senders++
			go r.drain(to, q)
		}
	}
}

// drain sends the due renewals of one route until there are no more.
func (r *renewer) drain(to route, q *queue) {
	for {
		r.mu.Lock()
		batch := q.batch()
		if len(batch) == 0 {
			if q.senders--; q.senders == 0 {
				delete(r.routes, to)
			}
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		r.send(batch, to.ttl)
	}
}

// batch takes the renewals for one pipeline, and drops ended ones. The renewer's mutex is
// held.
func (q *queue) batch() (batch []*heldLease) {
	bytes, i := 0, 0
	for ; i < len(q.parts) && len(batch) < maxRenewals && bytes < maxRenewalBytes; i++ {
		if h := q.parts[i]; !h.renewal.over {
			batch = append(batch, h)
			for _, key := range h.keys {
				bytes += len(key)
			}
		}
	}
	if q.parts = q.parts[i:]; len(q.parts) == 0 {
		q.parts = nil
	}
	return batch
}

// send renews leases in one pipeline and schedules their next renewals.
func (r *renewer) send(parts []*heldLease, ttl time.Duration) {
	now := time.Now()
	cmds := make([]redoubt.Cmd, 0, len(parts))
	parts = slices.DeleteFunc(parts, func(h *heldLease) bool {
		// The caller has extended this lease meanwhile: it is not due yet.
		if until := h.until(); until.Sub(now) > ttl*4/5 {
			r.add(h, renewAt(until.Add(-ttl), ttl))
			return true
		}
		cmds = append(cmds, h.kind.extend(h.keys, h.id, ttl))
		return false
	})
	if len(parts) == 0 {
		return
	}
	// A third of the TTL leaves time for more attempts, on other connections.
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.Background()), ttl/3)
	defer cancel()
	for i, reply := range r.client.Pipeline(ctx, cmds) {
		h := parts[i]
		held, granted, err := wire.ReadExtend(reply)
		h.lease.mu.Lock()
		h.renewal.err = err
		h.lease.mu.Unlock()
		if err != nil {
			h.undoLate(err)
			r.client.Report(ctx, redoubt.Event{Kind: redoubt.EventRenewalFailed, Primitive: "lock", Name: h.name, Err: err})
		}
		switch {
		case err == nil:
			if h.extended(now, held, granted) == nil {
				r.add(h, renewAt(now, ttl))
			}
		case h.until().After(time.Now()):
			r.add(h, time.Now().Add(ttl/20+rand.N(ttl/20)))
		default: // a master of a quorum, away for a long time
			r.add(h, renewAt(time.Now(), ttl))
		}
	}
}

// until is the part's own deadline.
func (h *heldLease) until() time.Time {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return h.deadline
}

func (h *heldLease) ttl() time.Duration { return h.lease.family.opts.TTL }

// An agenda is a heap of tasks by their times.
type agenda []*task

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i+1, j+1
}

func (a *agenda) Push(x any) {
	e := x.(*task)
	*a = append(*a, e)
	e.index = len(*a)
}

func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	last.index = 0
	return last
}
