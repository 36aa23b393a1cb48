package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
)

func (e *env) rw(c *redoubt.Client, opts lock.Options) *lock.RWMutex {
	e.T.Helper()
	rw, err := lock.NewRWMutex(c, optionsOf[lock.RWMutexOptions](opts))
	must(e.T, err)
	return rw
}

// readers is the readers' side of an RWMutex.
type readers struct{ rw *lock.RWMutex }

func (r readers) TryAcquire(ctx context.Context, name string) (*lock.Lease, *lock.Busy, error) {
	return r.rw.TryAcquireShared(ctx, name)
}

func (r readers) Acquire(ctx context.Context, name string) (*lock.Lease, error) {
	return r.rw.AcquireShared(ctx, name)
}

// busyFor returns why m can't be acquired.
func busyFor(t *testing.T, m taker, name string) lock.Busy {
	t.Helper()
	lease, busy, err := m.TryAcquire(t.Context(), name)
	must(t, err)
	if lease != nil {
		t.Fatal("acquired what is held")
	}
	return *busy
}

// Promise: No writer holds an RWMutex or a Mutex together with readers or
// another writer; readers carry the token of the last writer, and a dead
// reader is in the way until its own lease ends.
func TestReadersAndWriters(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		var reading, writing atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			rw, m := e.rw(e.newClient(), lock.Options{}), e.mutex(e.newClient(), lock.Options{})
			write := func() {
				if writing.Add(1) != 1 || reading.Load() != 0 {
					t.Error("a writer is not alone")
				}
				writing.Add(-1)
			}
			for i := range 3 {
				wg.Go(func() {
					for range 8 {
						var err error
						switch i {
						case 0:
							err = rw.Do(t.Context(), t.Name(), func(context.Context) error { write(); return nil })
						case 1:
							err = m.Do(t.Context(), t.Name(), func(context.Context) error { write(); return nil })
						default:
							err = rw.DoShared(t.Context(), t.Name(), func(context.Context) error {
								reading.Add(1)
								defer reading.Add(-1)
								if writing.Load() != 0 {
									t.Error("a reader reads while a writer writes")
								}
								return nil
							})
						}
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
	})
}

// Readers hold the lock together, with the token of the last writer; the writer
// gets in when the last of them is gone; a Mutex is the same lock.
//
// Promise: No writer holds an RWMutex or a Mutex together with readers or
// another writer; readers carry the token of the last writer, and a dead
// reader is in the way until its own lease ends.
func TestReadLeases(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		rw := e.rw(e.newClient(), lock.Options{Label: "rw"})
		m, r := e.mutex(e.newClient(), lock.Options{}), readers{rw}
		first := try(t, m, t.Name())
		busyFor(t, r, t.Name())
		must(t, first.Release(t.Context()))

		a, b := try(t, r, t.Name()), try(t, r, t.Name())
		if a.Token() != first.Token() || b.Token() != first.Token() {
			t.Errorf("readers have tokens %d and %d, want that of the last writer, %d", a.Token(), b.Token(), first.Token())
		}
		info, err := rw.Info(t.Context(), t.Name())
		must(t, err)
		if info.Mode != lock.Shared || info.Count != 2 || len(info.Holders) != 2 || info.Holders[0].Label != "rw" || info.Token != first.Token() {
			t.Errorf("info is %+v", info)
		}
		must(t, a.Extend(t.Context(), time.Hour))
		if busy := busyFor(t, m, t.Name()); busy.Remaining < 59*time.Minute || busy.Label != "rw" {
			t.Errorf("a writer finds %+v", busy)
		}
		must(t, a.Release(t.Context()))
		if busy := busyFor(t, rw, t.Name()); busy.Remaining > lock.DefaultTTL {
			t.Errorf("a writer finds %+v after the reader that had it for an hour left", busy)
		}
		must(t, a.Release(t.Context())) // again
		must(t, b.Release(t.Context()))
		next := try(t, rw, t.Name())
		if next.Token() <= first.Token() {
			t.Errorf("token %d after %d", next.Token(), first.Token())
		}
		must(t, next.Release(t.Context()))
		for _, part := range []string{"lock", "readers", "labels"} {
			if left := e.Redis.PTTL(t.Context(), e.Prefix+":{"+t.Name()+"}:"+part).Val(); left > 61*time.Second || left == -1 {
				t.Errorf("%s lives for another %v", part, left)
			}
		}
	})
}

// A reader that died is in the way until its own lease ends, whoever else reads.
//
// Promise: No writer holds an RWMutex or a Mutex together with readers or
// another writer; readers carry the token of the last writer, and a dead
// reader is in the way until its own lease ends.
func TestNoZombieReaders(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		dead := e.rw(e.newClient(), lock.Options{TTL: 300 * time.Millisecond, NoRenew: true})
		rw := e.rw(e.newClient(), lock.Options{})
		zombie, live := take(t, readers{dead}, t.Name()), try(t, readers{rw}, t.Name())
		<-zombie.Done()
		eventually(t, "one reads", func() bool {
			info, err := rw.Info(t.Context(), t.Name())
			return err == nil && info.Count == 1
		})
		if err := zombie.Release(t.Context()); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Release of a lease that ran out returned %v", err)
		}
		busyFor(t, rw, t.Name())
		must(t, live.Release(t.Context()))

		// Alone: nobody releases anything, and a writer gets in.
		zombie = take(t, readers{dead}, t.Name())
		lease, err := rw.Acquire(t.Context(), t.Name())
		must(t, err)
		if zombie.Err() == nil {
			t.Error("a reader's lease outlives the server's")
		}
		must(t, lease.Release(t.Context()))
		// Nor does it come back with the next readers.
		live = try(t, readers{rw}, t.Name())
		info, err := rw.Info(t.Context(), t.Name())
		must(t, err)
		if info.Count != 1 {
			t.Errorf("%d read, want 1", info.Count)
		}
		must(t, live.Release(t.Context()))
	})
}

// A writer that waits keeps new readers out, and gets the lock before them; one
// that gives up lets them in.
//
// Promise: A waiting writer keeps new readers out; a dead one does so for 3 s
// at most.
func TestWriterPreference(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		rw, writer, late := e.rw(e.newClient(), lock.Options{}), e.rw(e.newClient(), lock.Options{}), e.rw(e.newClient(), lock.Options{})
		reader := try(t, readers{rw}, t.Name())
		ctx, giveUp := context.WithCancel(t.Context())
		order := make(chan string, 3)
		wrote := make(chan *lock.Lease, 2)
		wait := func(what string, m taker, ctx context.Context) {
			lease, err := m.Acquire(ctx, t.Name())
			if err == nil {
				order <- what
				wrote <- lease
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		waiters := func(n int64) {
			eventually(t, "they wait", func() bool {
				info, err := rw.Info(t.Context(), t.Name())
				return err == nil && info.Waiters == n
			})
		}
		claimed := func() {
			eventually(t, "the writer claims the lock", func() bool {
				return e.Redis.HExists(t.Context(), e.key(t.Name()), "claim").Val()
			})
		}
		go wait("writer", writer, ctx)
		claimed()
		if busy := busyFor(t, readers{late}, t.Name()); busy.Remaining <= 0 || busy.Remaining > 3*time.Second {
			t.Errorf("a new reader is told %v", busy.Remaining)
		}
		go wait("reader", readers{late}, t.Context())
		waiters(2)

		// It gives up: the new reader is let in, beside the old one.
		pulse := await.NewPulse(t)
		gaveUp := pulse.Now()
		giveUp()
		if what := <-order; what != "reader" {
			t.Errorf("%s got in", what)
		}
		if took := pulse.Now() - gaveUp; took > 2*time.Second {
			t.Errorf("the reader got in %v after the writer gave up: it was not woken", took)
		}
		second := <-wrote

		// It doesn't: it is first.
		go wait("writer", writer, t.Context())
		claimed()
		go wait("reader", readers{late}, t.Context())
		waiters(2)
		must(t, reader.Release(t.Context()))
		must(t, second.Release(t.Context()))
		for _, want := range []string{"writer", "reader"} {
			if what := <-order; what != want {
				t.Errorf("%s got in, want the %s", what, want)
			}
			must(t, (<-wrote).Release(t.Context()))
		}
	})
}

// The writer that waits is gone without a word: readers wait for its claim to
// end, and no longer.
//
// Promise: A waiting writer keeps new readers out; a dead one does so for 3 s
// at most.
func TestDeadWriterKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, e *env) {
		c := e.newClient()
		rw := e.rw(c, lock.Options{})
		reader := try(t, readers{rw}, t.Name())
		must(t, c.Do(t.Context(), wire.AcquireCmd([]string{e.key(t.Name())}, wire.Request{ID: "dead", TTL: time.Minute, Waiter: "PUBLISH nobody"})).Err)
		must(t, c.Do(t.Context(), wire.ClaimCmd([]string{e.key(t.Name())}, "dead", 3*time.Second)).Err)
		busyFor(t, readers{rw}, t.Name())
		began := time.Now()
		second, err := rw.AcquireShared(t.Context(), t.Name())
		must(t, err)
		if took := time.Since(began); took > 15*time.Second { // the lease of the other reader lasts 30 s
			t.Errorf("a dead writer kept a reader out for %v", took)
		}
		must(t, reader.Release(t.Context()))
		must(t, second.Release(t.Context()))
	})
}

// Readers of many processes wait for one writer: one wake-up lets all of them
// in, each waking the next.
func TestAllReadersAreWoken(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		const n = 5
		rw := e.rw(e.newClient(), lock.Options{})
		writer := try(t, rw, t.Name())
		got := make(chan error, 2*n)
		for range n {
			r := e.rw(e.newClient(), lock.Options{})
			for range 2 {
				go func() {
					_, err := r.AcquireShared(t.Context(), t.Name())
					got <- err
				}()
			}
		}
		eventually(t, "all wait", func() bool {
			info, err := rw.Info(t.Context(), t.Name())
			return err == nil && info.Waiters == n
		})
		released := time.Now()
		must(t, writer.Release(t.Context()))
		for range 2 * n {
			must(t, <-got)
		}
		if took := time.Since(released); took > 5*time.Second {
			t.Errorf("all read after %v: somebody was not woken", took)
		}
	})
}

// rwState names the holders of a reader/writer lock.
type rwState struct {
	writer  string
	readers holders
}

// One writer or any number of readers, with tokens that rise from writer to
// writer and never fall.
var rwModel = porcupine.Model{
	Partition: byName,
	Init:      func() any { return rwState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, e := state.(rwState), input.(event)
		ok := true
		switch {
		case e.what == acquired && e.shared:
			ok = s.writer == "" && e.fence >= s.readers.fence
			s.readers = holders{s.readers.with(e.id), e.fence}
		case e.what == acquired:
			ok = s.writer == "" && s.readers.ids == "" && e.fence > s.readers.fence
			s.writer, s.readers.fence = e.id, e.fence
		case e.what == ended && e.shared:
			ok = s.readers.has(e.id)
			s.readers.ids = s.readers.without(e.id)
		case e.what == ended:
			ok = s.writer == e.id
			s.writer = ""
		case e.what == extended && e.shared:
			ok = s.readers.has(e.id)
		case e.what == extended:
			ok = s.writer == e.id
		}
		return ok, s
	},
	DescribeOperation: describe,
}
