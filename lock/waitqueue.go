package lock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
)

// queuesKey is where a client keeps the wait queues of all its locks.
type queuesKey struct{}

// queuesOf returns the wait queues of client. The server knows the client and not its
// Mutexes, so they share one queue for a name.
func queuesOf(client *redoubt.Client) *waitQueues {
	return client.Shared(queuesKey{}, func() any { return new(waitQueues) }).(*waitQueues)
}

// quorumQueuesKey is where the first client of a Quorum keeps its wait queues. All Quorums on the
// same masters share them.
type quorumQueuesKey [MaxMasters]*redoubt.Client

// waitQueues are the callers in this process that wait with one client, by key.
type waitQueues struct {
	mu    sync.Mutex
	byKey map[string]*waitQueue

	listening atomic.Bool // wake-ups arrive without a subscription of their own
}

// A waitQueue is the callers in this process that wait for one key, in order. Only the first
// of them has a place in the server's queue.
type waitQueue struct {
	turns  []chan struct{} // closed when the caller is first
	waiter string          // its entry in the server's queue; empty before

	// underWay counts the commands under way that queue the first caller on the server, or
	// claim.
	underWay sync.WaitGroup

	wakeups *wakeups // of a [Quorum]
}

// giveUp removes a caller that stops waiting from the queue.
//
// If another caller stands behind, it tries at once and takes over the place in the
// server's queue. The last caller gives up that place, which wakes another process if
// this one was just woken for nothing, and takes its claim back. The caller doesn't wait
// for that. A caller that joins the queue meanwhile does, or it would lose the place that
// it has just taken.
func (qs *waitQueues) giveUp(ctx context.Context, client *redoubt.Client, key string, turn chan struct{}, claims bool, leave func(waiter string) redoubt.Cmd) {
	waiter, last, out := qs.quit(key, turn, claims)
	if out {
		return
	}
	underWay := qs.underWay(key)
	client.Go(func() {
		ctx, cancel := context.WithTimeout(redoubt.Patient(context.WithoutCancel(ctx)), 2*cleanUpTimeout)
		defer cancel()
		underWay.Wait()
		if !last {
			_ = client.Do(ctx, leave(""))
			if qs.passOn(key) {
				return
			}
			// The callers behind have left meanwhile, and left the place to this one.
		}
		_ = client.Do(ctx, leave(waiter))
		qs.leave(key, turn)
	})
}

// run calls send, which queues on the server or claims. It reports whether send returned
// before ctx ended. Otherwise send continues in the background, followed by late: a command
// that leaves the server's queue earlier might overtake the command of send.
func (q *waitQueue) run(ctx context.Context, client *redoubt.Client, send, late func(ctx context.Context)) (answered bool) {
	back := make(chan struct{})
	q.underWay.Add(1)
	client.Go(func() {
		defer q.underWay.Done()
		long, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(cleanUpTimeout, cancel) })()
		send(long)
		select {
		case back <- struct{}{}:
		case <-ctx.Done():
			late(long)
		}
	})
	select {
	case <-back:
		return true
	case <-ctx.Done():
		return false
	}
}

func (qs *waitQueues) empty(key string) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.byKey[key] == nil
}

// join appends the caller to the queue. It closes the channel when the caller is first.
func (qs *waitQueues) join(key string) (turn chan struct{}) {
	turn = make(chan struct{})
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.byKey == nil {
		qs.byKey = make(map[string]*waitQueue)
	}
	if qs.byKey[key] == nil {
		qs.byKey[key] = &waitQueue{}
		close(turn)
	}
	qs.byKey[key].turns = append(qs.byKey[key].turns, turn)
	return turn
}

// queued notes that the first caller is about to queue on the server.
func (qs *waitQueues) queued(key, waiter string) *waitQueue {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.byKey[key].waiter = waiter
	return qs.byKey[key]
}

// underWay returns the count of the commands that queue on the server for key.
func (qs *waitQueues) underWay(key string) *sync.WaitGroup {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return &qs.byKey[key].underWay
}

// quit removes the caller from the queue, unless the caller must also leave the server's
// queue. Then out is false, the caller stays first, waiter is the entry in the server's
// queue, and last reports whether no caller stands behind. It is one step: otherwise the
// callers behind might leave in between, each leaving the entry to another, and the
// server would later wake a client without waiters.
func (qs *waitQueues) quit(key string, turn chan struct{}, claims bool) (waiter string, last, out bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	queue := qs.byKey[key]
	if queue == nil || !slices.Contains(queue.turns, turn) {
		return "", false, true // disbanded
	}
	last = len(queue.turns) == 1
	if queue.turns[0] == turn && queue.waiter != "" && (last || claims) {
		return queue.waiter, last, false
	}
	qs.remove(key, turn)
	return "", false, true
}

// first reports whether the caller is first in the queue; false after disband.
func (qs *waitQueues) first(key string, turn chan struct{}) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.byKey[key] != nil && qs.byKey[key].turns[0] == turn
}

// disband gives every caller in the queue its turn: the wait has ended for all of them.
func (qs *waitQueues) disband(key string) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	queue := qs.byKey[key]
	delete(qs.byKey, key)
	for _, turn := range queue.turns[1:] {
		close(turn)
	}
}

// passOn removes the caller, which is first, if another caller stands behind.
func (qs *waitQueues) passOn(key string) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	queue := qs.byKey[key]
	if len(queue.turns) == 1 {
		return false
	}
	queue.turns = slices.Delete(queue.turns, 0, 1)
	close(queue.turns[0])
	return true
}

// leave removes the caller from the queue, at any place.
func (qs *waitQueues) leave(key string, turn chan struct{}) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.remove(key, turn)
}

// remove is leave with qs.mu held.
func (qs *waitQueues) remove(key string, turn chan struct{}) {
	queue := qs.byKey[key]
	if queue == nil {
		return // disbanded
	}
	i := slices.Index(queue.turns, turn)
	if i < 0 {
		return // disbanded, and this is another queue
	}
	queue.turns = slices.Delete(queue.turns, i, i+1)
	if len(queue.turns) == 0 {
		delete(qs.byKey, key)
	} else if i == 0 {
		close(queue.turns[0])
	}
}

// wakeups returns the wakeups of the queue for key, and makes them if there are none yet.
func (qs *waitQueues) wakeups(key string, create func() *wakeups) *wakeups {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	queue := qs.byKey[key]
	if queue.wakeups == nil {
		queue.wakeups = create()
	}
	return queue.wakeups
}

// inheritPlace gives a place in the queue of a master to the wait queue for key, if that
// queue exists.
func (qs *waitQueues) inheritPlace(key string, i int) bool {
	qs.mu.Lock()
	queue := qs.byKey[key]
	var w *wakeups
	if queue != nil {
		w = queue.wakeups
	}
	qs.mu.Unlock()
	if w == nil {
		return queue != nil // it asks each master, and finds the place
	}
	w.queued(i)
	return true
}

// takeWakeups removes and returns the wakeups of the queue for key, nil if there are none.
func (qs *waitQueues) takeWakeups(key string) *wakeups {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	w := qs.byKey[key].wakeups
	qs.byKey[key].wakeups = nil
	return w
}

// leaveToOthers removes the caller from the queue, unless it is the only one.
func (qs *waitQueues) leaveToOthers(key string, turn chan struct{}) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	queue := qs.byKey[key]
	if len(queue.turns) == 1 {
		return false
	}
	i := slices.Index(queue.turns, turn)
	queue.turns = slices.Delete(queue.turns, i, i+1)
	if i == 0 {
		close(queue.turns[0])
	}
	return true
}
