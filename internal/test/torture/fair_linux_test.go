package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// waitersAtATime is how many wait in a trial of a fair lock.
const waitersAtATime = 3

// fair makes trials of a fair lock. Their order counts once the faults are over and two trials on the same name have
// gone well: until then the subscription at the server of that name may still be lost, and its waiter is passed over
// as one of a dead process.
func (w *worker) fair(ctx context.Context, d door) {
	rng := w.random(fair)
	well := 0
	for n := 1; ctx.Err() == nil; n++ {
		calm := w.finished.Load()
		t := &trial{worker: w, door: d, id: strconv.Itoa(n), name: fmt.Sprintf("%s-fair-%d-%d", w.Tag, w.Worker, n)}
		if calm {
			t.name = fmt.Sprintf("%s-fair-%d-calm", w.Tag, w.Worker)
		}
		err := t.run(ctx, rng)
		if err != nil {
			w.failed(ctx, fair, err)
			well = 0
		} else if calm {
			well++
		}
		if well > 2 {
			for _, e := range t.arrivals {
				w.pen.note(e)
			}
			if t.known > 0 {
				w.worked(fair)
			}
		}
		w.pause(ctx, rng, 100*time.Millisecond)
	}
}

// A trial lets several wait for a lock that one holds. When that one releases it, one more tries to get it without
// waiting.
type trial struct {
	*worker
	door     door
	id, name string

	mu       sync.Mutex
	arrivals []event
	known    int // the first waiters, which are known to wait
}

var errNotServed = errors.New("a waiter's patience is over")

// run returns an error unless all waiters were served.
func (t *trial) run(ctx context.Context, rng *mathrand.Rand) error {
	var waiters sync.WaitGroup
	var errs [waitersAtATime]error
	t.arrivals = make([]event, waitersAtATime)
	served, err := t.use(ctx, 0, func() {
		for i := range errs {
			t.mu.Lock()
			t.arrivals[i] = event{Primitive: fair, Name: t.name, What: arrived, ID: t.id, M: int64(1 + i), Call: now()}
			t.mu.Unlock()
			waiters.Go(func() {
				served, err := t.use(ctx, int64(1+i), func() {})
				t.arrive(1 + i)
				if errs[i] = err; err == nil && !served {
					errs[i] = errNotServed
				}
			})
			if rng.IntN(3) > 0 { // Otherwise it waits beside the next one, in either order.
				t.look(ctx, 1+i)
			}
		}
		t.pause(ctx, rng, 20*time.Millisecond)
	})
	if err == nil && !served {
		err = errNotServed
	}
	_, errToo := t.use(ctx, 0, func() {}) // It may find the lock busy.
	waiters.Wait()
	return errors.Join(append(errs[:], err, errToo)...)
}

// use acquires the lock, and releases it. waiter is the number of one that waits, and 0 of one that doesn't.
func (t *trial) use(ctx context.Context, waiter int64, meanwhile func()) (served bool, err error) {
	call := now()
	h, err := t.door.acquire(ctx, fair, t.name, waiter > 0)
	if err != nil || h == nil {
		return false, err
	}
	t.pen.note(event{Primitive: fair, Name: t.name, What: acquired, ID: t.id, N: h.token, M: waiter, Call: call, Return: now(), Until: h.until()})
	meanwhile()
	over := t.pen.begin(event{Primitive: fair, Name: t.name, What: ended, ID: t.id, N: h.token, Call: min(now(), h.until())})
	within, cancel := within(context.WithoutCancel(ctx))
	defer cancel()
	err = h.release(within)
	t.pen.end(over, err)
	return true, err
}

// look returns once n waiters are known to wait, or after a while.
func (t *trial) look(ctx context.Context, n int) {
	for range 50 {
		if _, waiting, err := t.door.holder(ctx, t.name); err == nil && waiting >= int64(n) {
			t.known = n
			for waiter := 1; waiter <= n; waiter++ {
				t.arrive(waiter)
			}
			return
		}
		t.rest(ctx, 5*time.Millisecond)
	}
}

// arrive notes that a waiter waits by now.
func (t *trial) arrive(waiter int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.arrivals[waiter-1]
	e.Return = cmp.Or(e.Return, now())
}

// trials returns the events of the trials whose order counts: the ones with arrivals.
func trials(events []event) (out []event) {
	counts := map[string]bool{}
	for _, e := range events {
		if e.What == arrived {
			counts[e.ID] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(events), func(e event) bool { return !counts[e.ID] })
}

// A turn is the state of a fair lock: the token of the holder, 0 without one, the largest so far, and who waits, the
// first in front.
type turn struct {
	holder, token int64
	waiting       [waitersAtATime]int64
}

// A fair lock goes to the waiters in the order in which they arrived, and to others only when nobody waits.
var fairModel = model(turn{}, func(s turn, e event) (bool, turn) {
	switch e.What {
	case arrived:
		end := slices.Index(s.waiting[:], 0)
		if end < 0 {
			return false, s
		}
		s.waiting[end] = e.M
		return true, s
	case acquired:
		if s.holder != 0 || e.N <= s.token || s.waiting[0] != e.M {
			return false, s
		}
		copy(s.waiting[:], s.waiting[1:])
		s.waiting[waitersAtATime-1] = 0
		return true, turn{e.N, e.N, s.waiting}
	default: // ended
		return s.holder == e.N, turn{0, s.token, s.waiting}
	}
})
