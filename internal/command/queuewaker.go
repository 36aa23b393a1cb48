package command

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

const (
	// blockTimeSlice is how long a waker blocks on the server. It is a safety net: a timer in this
	// process waits for due messages.
	blockTimeSlice = 10 * time.Second
	// blockGrace is by how much a server may miss the end of a slice before its
	// connection counts as dead.
	blockGrace = 2 * time.Second
	// wakerLinger is how long a waker stays for the next waiter.
	wakerLinger = time.Second
	// failurePause is the pause after a failed slice.
	failurePause = 250 * time.Millisecond
	// shortLease is the shortest lease whose end a waker expects when it does not know the lease.
	shortLease = 100 * time.Millisecond
)

// queueWakers wake clients that wait for messages. A queue has one waker for all its waiters, so
// a waiter costs no connection of its own.
type queueWakers struct {
	mu sync.Mutex
	of map[string]*queueWaker // by the key of the marker; guarded by mu
}

// A queueWaker blocks on the marker of a queue and has a timer for the next message that is due later. When
// either says that a message may be taken, it wakes the waiter that has waited longest, and that waiter
// pumps. The marker is only a hint: a process that takes it and then doesn't pump puts it back.
type queueWaker struct {
	wakers  *queueWakers
	client  *redoubt.Client
	keys    wire.Keys
	changed chan struct{} // waiters or next has changed

	// Guarded by wakers.mu:
	waiters []*queueWaiter // in the order of their arrival
	next    time.Time      // when a message may be due; zero: unknown
}

// Takers adds how many clients wait for messages of each queue, by the key of its wake-up marker.
func (env *Env) Takers(to map[string]int) {
	ws := &env.wakers
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for marker, w := range ws.of {
		if len(w.waiters) > 0 {
			to[marker] += len(w.waiters)
		}
	}
}

// IsMarker reports whether a key is the wake-up marker of a queue.
func IsMarker(key []byte) bool { return wire.IsWake(key) }

// A queueWaiter is a client that waits for a message of a queue.
type queueWaiter struct {
	waker *queueWaker
	lease time.Duration
	c     chan struct{} // pump now
	woken bool          // c was sent to and not read; guarded by wakers.mu
}

// add adds a waiter that will take messages for a lease.
func (ws *queueWakers) add(client *redoubt.Client, keys wire.Keys, lease time.Duration) *queueWaiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.of[keys.Wake()]
	if w == nil {
		w = &queueWaker{wakers: ws, client: client, keys: keys, changed: make(chan struct{}, 1)}
		if ws.of == nil {
			ws.of = map[string]*queueWaker{}
		}
		ws.of[keys.Wake()] = w
		client.Go(w.run)
	}
	e := &queueWaiter{waker: w, lease: max(lease, shortLease), c: make(chan struct{}, 1)}
	w.waiters = append(w.waiters, e)
	w.change()
	return e
}

// read notes that c was read. Call it before the pump, so that later wake-ups count.
func (e *queueWaiter) read() {
	e.waker.wakers.mu.Lock()
	defer e.waker.wakers.mu.Unlock()
	e.woken = false
}

// expect notes the time until the next message is due, as a pump returned it; negative: unknown.
func (e *queueWaiter) expect(next time.Duration) {
	e.waker.wakers.mu.Lock()
	defer e.waker.wakers.mu.Unlock()
	e.waker.expect(next)
}

// expect notes the time until the next message is due, from a pump of a client that does not wait.
func (ws *queueWakers) expect(keys wire.Keys, next time.Duration) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.of[keys.Wake()]; w != nil {
		w.expect(next)
	}
}

// expect makes the waker wake a waiter when the next message is due, and at the latest at the end of a
// lease that another process takes meanwhile: if that process dies, nothing else wakes a
// waiter. It assumes that leases elsewhere are as long as here. wakers.mu is held.
func (w *queueWaker) expect(next time.Duration) {
	for _, e := range w.waiters {
		if next < 0 || e.lease < next {
			next = e.lease
		}
	}
	if next < 0 {
		return
	}
	if at := time.Now().Add(next); w.next.IsZero() || at.Before(w.next) {
		w.next = at
		w.change()
	}
}

// leave removes a waiter. unused: e was woken and did not pump.
func (e *queueWaiter) leave(unused bool) {
	w := e.waker
	w.wakers.mu.Lock()
	w.waiters = slices.DeleteFunc(w.waiters, func(o *queueWaiter) bool { return o == e })
	unused = unused || e.woken
	w.change()
	w.wakers.mu.Unlock()
	if unused && !w.wake() {
		w.client.Go(w.mark)
	}
}

// change makes run read waiters and next again. wakers.mu is held.
func (w *queueWaker) change() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// wake wakes the first waiter and reports whether there is one.
func (w *queueWaker) wake() bool {
	w.wakers.mu.Lock()
	defer w.wakers.mu.Unlock()
	for _, e := range w.waiters {
		if !e.woken {
			e.woken = true
			e.c <- struct{}{}
			return true
		}
	}
	return len(w.waiters) > 0 // all of them are about to pump
}

// mark puts the marker back for consumers elsewhere.
func (w *queueWaker) mark() {
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.Background()), undoTimeout)
	defer cancel()
	// If that fails they pump at the end of their slices.
	_ = w.client.Do(ctx, wire.PumpCmd(w.keys, wire.Pump{Consumer: noConsumer, Take: wire.NewTake(), N: wire.Leave, Lease: time.Second}))
}

// run ends when there was no waiter for a while.
func (w *queueWaker) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		popped := make(chan redoubt.Reply, 1)
		go func() { popped <- w.block(ctx) }()
		r, ok := w.await(popped)
		if !ok {
			cancel()
			<-popped
			w.mark() // it may have been popped meanwhile
			return
		}
		if w.wake() {
			if r.Err != nil {
				time.Sleep(failurePause)
			}
			continue
		}
		// No waiter: popping again would only pop the marker that was put back.
		if w.end() {
			w.mark()
			return
		}
	}
}

func (w *queueWaker) block(ctx context.Context) redoubt.Reply {
	ctx, cancel := context.WithTimeout(ctx, blockTimeSlice+blockGrace)
	defer cancel()
	return w.client.Do(ctx, redoubt.Cmd{
		Name: "BZPOPMIN", Keys: []string{w.keys.Wake()},
		Args: []string{strconv.Itoa(int(blockTimeSlice / time.Second))}, Flags: redoubt.Blocking,
	})
}

// await returns the reply of a slice, and wakes a waiter when a message is due. ok is false when there is
// no waiter any more and the waker is removed.
func (w *queueWaker) await(popped <-chan redoubt.Reply) (r redoubt.Reply, ok bool) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, deserted := w.until()
		timer.Reset(wait)
		select {
		case r := <-popped:
			return r, true
		case <-w.changed:
		case <-timer.C:
			if deserted && w.end() {
				return redoubt.Reply{}, false
			}
			if !deserted && w.isDue() {
				w.wake()
			}
		}
	}
}

// until returns how long to wait for the marker.
func (w *queueWaker) until() (wait time.Duration, deserted bool) {
	w.wakers.mu.Lock()
	defer w.wakers.mu.Unlock()
	switch {
	case len(w.waiters) == 0:
		return wakerLinger, true
	case w.next.IsZero():
		return time.Hour, false
	}
	return max(0, time.Until(w.next)), false
}

// isDue reports, once, that the next message is due.
func (w *queueWaker) isDue() bool {
	w.wakers.mu.Lock()
	defer w.wakers.mu.Unlock()
	if w.next.IsZero() || time.Now().Before(w.next) {
		return false
	}
	w.next = time.Time{}
	return true
}

// end removes the waker, unless it has a waiter.
func (w *queueWaker) end() bool {
	w.wakers.mu.Lock()
	defer w.wakers.mu.Unlock()
	if len(w.waiters) > 0 {
		return false
	}
	delete(w.wakers.of, w.keys.Wake())
	return true
}
