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
	// bellSlice is how long a bell blocks on the server. It is a safety net, not a
	// clock: what is due is awaited here.
	bellSlice = 10 * time.Second
	// bellLate is by how much a server may miss the end of a slice before its
	// connection counts as dead.
	bellLate = 2 * time.Second
	// bellLinger is how long a bell stays for the next waiter.
	bellLinger = time.Second
	// bellPause is the pause after a slice that failed.
	bellPause = 250 * time.Millisecond
	// shortLease is the shortest that a bell rings for without having heard of it.
	shortLease = 100 * time.Millisecond
)

// bells wake clients that wait for messages: one bell for a queue, however many
// wait, so that each costs no connection of its own.
type bells struct {
	mu sync.Mutex
	of map[string]*bell // by the key of the marker; guarded by mu
}

// A bell blocks on the marker of a queue and has a timer for the next message that is due later. When
// either says that a message may be taken, it wakes the waiter that has waited longest, and that waiter
// looks. The marker is only a hint: a process that takes it and then doesn't look puts it back.
type bell struct {
	bells   *bells
	client  *redoubt.Client
	keys    wire.Keys
	changed chan struct{} // ears or next are others

	// Guarded by bells.mu:
	ears []*ear    // in the order in which they came
	next time.Time // zero: not known
}

// An ear is one who waits.
type ear struct {
	bell  *bell
	lease time.Duration
	c     chan struct{} // look for a message
	rung  bool          // and has not been read; guarded by bells.mu
}

// listen begins to wait, on behalf of one who takes messages for a lease.
func (bs *bells) listen(client *redoubt.Client, keys wire.Keys, lease time.Duration) *ear {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b := bs.of[keys.Wake()]
	if b == nil {
		b = &bell{bells: bs, client: client, keys: keys, changed: make(chan struct{}, 1)}
		if bs.of == nil {
			bs.of = map[string]*bell{}
		}
		bs.of[keys.Wake()] = b
		client.Go(b.run)
	}
	e := &ear{bell: b, lease: max(lease, shortLease), c: make(chan struct{}, 1)}
	b.ears = append(b.ears, e)
	b.change()
	return e
}

// looks is called after c was read and before the look: what rings from now on is
// news.
func (e *ear) looks() {
	e.bell.bells.mu.Lock()
	defer e.bell.bells.mu.Unlock()
	e.rung = false
}

// expect is called after each look, with what it said of when another may find
// something, negative if it said nothing.
func (e *ear) expect(next time.Duration) {
	e.bell.bells.mu.Lock()
	defer e.bell.bells.mu.Unlock()
	e.bell.expect(next)
}

// heard tells the waiters when a client that doesn't wait has looked, and when the next message is due.
func (bs *bells) heard(keys wire.Keys, next time.Duration) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if b := bs.of[keys.Wake()]; b != nil {
		b.expect(next)
	}
}

// expect lets the bell ring in time for what is next, and at the latest for the end
// of a lease that is taken elsewhere meanwhile, which nobody is woken for should its
// owner die. That one is as long as those here, it is assumed. bells.mu is held.
func (b *bell) expect(next time.Duration) {
	for _, e := range b.ears {
		if next < 0 || e.lease < next {
			next = e.lease
		}
	}
	if next < 0 {
		return
	}
	if at := time.Now().Add(next); b.next.IsZero() || at.Before(b.next) {
		b.next = at
		b.change()
	}
}

// leave ends the waiting. owes is true when the bell rang for e and nobody looked.
func (e *ear) leave(owes bool) {
	b := e.bell
	b.bells.mu.Lock()
	b.ears = slices.DeleteFunc(b.ears, func(o *ear) bool { return o == e })
	owes = owes || e.rung
	b.change()
	b.bells.mu.Unlock()
	if owes && !b.ring() {
		b.client.Go(b.mark)
	}
}

// change lets run look at ears and next again. bells.mu is held.
func (b *bell) change() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// ring reports whether anybody is there.
func (b *bell) ring() bool {
	b.bells.mu.Lock()
	defer b.bells.mu.Unlock()
	for _, e := range b.ears {
		if !e.rung {
			e.rung = true
			e.c <- struct{}{}
			return true
		}
	}
	return len(b.ears) > 0 // all of them are about to look
}

// mark hands a marker on to consumers elsewhere.
func (b *bell) mark() {
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.Background()), undoTimeout)
	defer cancel()
	// Or else they look at the end of their slices.
	_ = b.client.Do(ctx, wire.PumpCmd(b.keys, wire.Pump{Consumer: noConsumer, Take: wire.NewTake(), N: wire.Leave, Lease: time.Second}))
}

// run ends when nobody has waited for a while.
func (b *bell) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		popped := make(chan redoubt.Reply, 1)
		go func() { popped <- b.block(ctx) }()
		r, ok := b.await(popped)
		if !ok {
			cancel()
			<-popped
			b.mark() // it may have been popped meanwhile
			return
		}
		if b.ring() {
			if r.Err != nil {
				time.Sleep(bellPause)
			}
			continue
		}
		// Nobody is here: to go on would be to pop again what is put back.
		if b.end() {
			b.mark()
			return
		}
	}
}

func (b *bell) block(ctx context.Context) redoubt.Reply {
	ctx, cancel := context.WithTimeout(ctx, bellSlice+bellLate)
	defer cancel()
	return b.client.Do(ctx, redoubt.Cmd{
		Name: "BZPOPMIN", Keys: []string{b.keys.Wake()},
		Args: []string{strconv.Itoa(int(bellSlice / time.Second))}, Flags: redoubt.Blocking,
	})
}

// await returns the reply of a slice, and rings when something is due. ok is false
// when nobody waits any more: the bell is gone then.
func (b *bell) await(popped <-chan redoubt.Reply) (r redoubt.Reply, ok bool) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, deserted := b.until()
		timer.Reset(wait)
		select {
		case r := <-popped:
			return r, true
		case <-b.changed:
		case <-timer.C:
			if deserted && b.end() {
				return redoubt.Reply{}, false
			}
			if !deserted && b.isDue() {
				b.ring()
			}
		}
	}
}

// until is how long there is nothing to do but to wait for the marker.
func (b *bell) until() (wait time.Duration, deserted bool) {
	b.bells.mu.Lock()
	defer b.bells.mu.Unlock()
	switch {
	case len(b.ears) == 0:
		return bellLinger, true
	case b.next.IsZero():
		return time.Hour, false
	}
	return max(0, time.Until(b.next)), false
}

// isDue reports once that the next is due.
func (b *bell) isDue() bool {
	b.bells.mu.Lock()
	defer b.bells.mu.Unlock()
	if b.next.IsZero() || time.Now().Before(b.next) {
		return false
	}
	b.next = time.Time{}
	return true
}

// end takes the bell away, unless somebody has come.
func (b *bell) end() bool {
	b.bells.mu.Lock()
	defer b.bells.mu.Unlock()
	if len(b.ears) > 0 {
		return false
	}
	delete(b.bells.of, b.keys.Wake())
	return true
}
