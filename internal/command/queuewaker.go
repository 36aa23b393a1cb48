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
	// bellSlice is how long a bell blocks on the server. It is a safety net: a timer in this
	// process waits for due messages.
	bellSlice = 10 * time.Second
	// bellLate is by how much a server may miss the end of a slice before its
	// connection counts as dead.
	bellLate = 2 * time.Second
	// bellLinger is how long a bell stays for the next waiter.
	bellLinger = time.Second
	// bellPause is the pause after a failed slice.
	bellPause = 250 * time.Millisecond
	// shortLease is the shortest lease whose end a bell rings for without knowing of it.
	shortLease = 100 * time.Millisecond
)

// bells wake clients that wait for messages. A queue has one bell for all its waiters, so
// a waiter costs no connection of its own.
type bells struct {
	mu sync.Mutex
	of map[string]*bell // by the key of the marker; guarded by mu
}

// A bell blocks on the marker of a queue and has a timer for the next message that is due later. When
// either says that a message may be taken, it wakes the waiter that has waited longest, and that waiter
// pumps. The marker is only a hint: a process that takes it and then doesn't pump puts it back.
type bell struct {
	bells   *bells
	client  *redoubt.Client
	keys    wire.Keys
	changed chan struct{} // ears or next has changed

	// Guarded by bells.mu:
	ears []*ear    // in the order of their arrival
	next time.Time // when a message may be due; zero: unknown
}

// An ear is a waiter.
type ear struct {
	bell  *bell
	lease time.Duration
	c     chan struct{} // pump now
	rung  bool          // c was sent to and not read; guarded by bells.mu
}

// listen adds a waiter that will take messages for a lease.
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

// looks notes that c was read. Call it before the pump, so that later rings count.
func (e *ear) looks() {
	e.bell.bells.mu.Lock()
	defer e.bell.bells.mu.Unlock()
	e.rung = false
}

// expect notes the time until the next message is due, as a pump returned it; negative: unknown.
func (e *ear) expect(next time.Duration) {
	e.bell.bells.mu.Lock()
	defer e.bell.bells.mu.Unlock()
	e.bell.expect(next)
}

// heard notes the time until the next message is due, from a pump of a client that does not wait.
func (bs *bells) heard(keys wire.Keys, next time.Duration) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if b := bs.of[keys.Wake()]; b != nil {
		b.expect(next)
	}
}

// expect makes the bell ring when the next message is due, and at the latest at the end of a
// lease that another process takes meanwhile: if that process dies, nothing else wakes a
// waiter. It assumes that leases elsewhere are as long as here. bells.mu is held.
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

// leave removes a waiter. owes: the bell rang for e, and e did not pump.
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

// change makes run read ears and next again. bells.mu is held.
func (b *bell) change() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// ring rings for the first waiter and reports whether there is one.
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
	return len(b.ears) > 0 // all of them are about to pump
}

// mark puts the marker back for consumers elsewhere.
func (b *bell) mark() {
	ctx, cancel := context.WithTimeout(redoubt.Patient(context.Background()), undoTimeout)
	defer cancel()
	// If that fails they pump at the end of their slices.
	_ = b.client.Do(ctx, wire.PumpCmd(b.keys, wire.Pump{Consumer: noConsumer, Take: wire.NewTake(), N: wire.Leave, Lease: time.Second}))
}

// run ends when there was no waiter for a while.
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
		// No waiter: popping again would only pop the marker that was put back.
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

// await returns the reply of a slice, and rings when a message is due. ok is false when there is
// no waiter any more and the bell is removed.
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

// until returns how long to wait for the marker.
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

// isDue reports, once, that the next message is due.
func (b *bell) isDue() bool {
	b.bells.mu.Lock()
	defer b.bells.mu.Unlock()
	if b.next.IsZero() || time.Now().Before(b.next) {
		return false
	}
	b.next = time.Time{}
	return true
}

// end removes the bell, unless it has a waiter.
func (b *bell) end() bool {
	b.bells.mu.Lock()
	defer b.bells.mu.Unlock()
	if len(b.ears) > 0 {
		return false
	}
	delete(b.bells.of, b.keys.Wake())
	return true
}
