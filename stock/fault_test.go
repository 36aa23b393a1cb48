package stock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/stock"
)

// A reply is lost: the call is sent again, and has its effect once. Add alone is
// not.
//
// Promise: Reserve, Commit, Cancel and Set may be repeated, and are sent again after a lost
// reply, with one effect and the same answer.
func TestLostReplies(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		proxy := faultnet.New(t, e.Addr)
		v := e.itemsOn(e.ClientAt(proxy.Addr()))
		_, err := v.Set(t.Context(), "a", 10)
		must(t, err)
		reserve(t, v, "a", "load", 1)
		must(t, v.Cancel(t.Context(), "a", "load")) // the scripts are loaded

		proxy.SwallowNextReply()
		reserve(t, v, "a", "one", 2)
		proxy.SwallowNextReply()
		must(t, v.Commit(t.Context(), "a", "one"))
		reserve(t, v, "a", "two", 3)
		proxy.SwallowNextReply()
		must(t, v.Cancel(t.Context(), "a", "two"))
		proxy.SwallowNextReply()
		_, err = v.Set(t.Context(), "a", 20)
		must(t, err)
		proxy.SwallowNextReply()
		_, err = v.Info(t.Context(), "a")
		must(t, err)
		e.wants(t, "a", counts{20, 18, 0, 2})

		proxy.SwallowNextReply()
		_, err = v.Add(t.Context(), "a", 5)
		is(t, err, redoubt.ErrUnknownOutcome)
		e.wants(t, "a", counts{25, 23, 0, 2})
		if n := proxy.Stats().Swallowed; n != 6 {
			t.Errorf("%d replies were lost, want 6", n)
		}
	})
}

// losing loses the reply to the next command for good.
type losing struct {
	redoubt.Conn

	next atomic.Bool
}

func (c *losing) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	lose := c.next.CompareAndSwap(true, false) // not of a call that is under way already
	r := c.Conn.Do(ctx, cmd)
	if lose {
		return redoubt.Reply{Err: redoubt.UnknownOutcome(io.EOF)}
	}
	return r
}

// Nobody knows that units were reserved. Under an id that nobody knows they come
// back at once; under one of the caller's they stay.
//
// Promise: A reserve whose caller has left gives its units back.
func TestUnknownOutcome(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		conn := &losing{Conn: clienttest.Wrap(t, clienttest.Dial(t, e.Addr))}
		v := e.itemsOn(e.ClientOn(conn))
		_, err := v.Set(t.Context(), "a", 10)
		must(t, err)
		conn.next.Store(true)
		_, _, err = v.Reserve(t.Context(), "a", 3)
		is(t, err, redoubt.ErrUnknownOutcome)
		eventually(t, "the units are back", func() bool {
			i, err := v.Info(t.Context(), "a")
			return err == nil && i.Available == 10
		})

		for id, end := range map[string]func(ctx context.Context, name, id string) error{"commit": v.Commit, "cancel": v.Cancel} {
			conn.next.Store(true)
			_, _, err = v.ReserveRequest(t.Context(), "a", stock.Request{ID: id, N: 2})
			is(t, err, redoubt.ErrUnknownOutcome)
			conn.next.Store(true)
			is(t, end(t.Context(), "a", id), redoubt.ErrUnknownOutcome)
			must(t, end(t.Context(), "a", id))
		}
		e.wants(t, "a", counts{10, 8, 0, 2})
	})
}

// The caller leaves while its reserve is under way, and cancels or commits by the
// id, before or after the reserve arrives.
//
// Promise: A reserve that arrives after its cancel takes nothing.
func TestCancelInMidReserve(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		proxy := faultnet.New(t, e.Addr)
		cut, v := e.itemsOn(e.ClientAt(proxy.Addr())), e.items()
		_, err := v.Set(t.Context(), "a", 10)
		must(t, err)
		reserve(t, cut, "a", "load", 1)
		must(t, v.Cancel(t.Context(), "a", "load"))
		leave := func(id string, d faultnet.Direction) {
			t.Helper()
			_, err := cut.Info(t.Context(), "a") // it is connected
			must(t, err)
			proxy.Blackhole(d)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, _, err = cut.ReserveRequest(ctx, "a", stock.Request{ID: id, N: 2})
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redoubt.ErrUnknownOutcome) {
				t.Errorf("%v, want the ctx's error with an unknown outcome", err)
			}
		}
		leave("one", faultnet.ToClient)
		must(t, v.Cancel(t.Context(), "a", "one"))
		proxy.Heal()
		leave("two", faultnet.ToClient)
		must(t, v.Commit(t.Context(), "a", "two"))
		proxy.Heal()
		leave("three", faultnet.ToServer)
		is(t, v.Cancel(t.Context(), "a", "three"), stock.ErrNotFound)
		proxy.Heal() // now it arrives
		reserve(t, cut, "a", "four", 1)
		e.wants(t, "a", counts{10, 7, 1, 2})
	})
}

// The ctx of Do ends while its reserve is under way: what it took comes back.
//
// Promise: A reserve whose caller has left gives its units back.
func TestCancelledDoLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		proxy := faultnet.New(t, e.Addr)
		cut, v := e.itemsOn(e.ClientAt(proxy.Addr())), e.items()
		_, err := v.Set(t.Context(), "a", 1)
		must(t, err)
		_, err = cut.Do(t.Context(), "a", 1, func(context.Context) error { return io.EOF })
		is(t, err, io.EOF)
		proxy.Blackhole(faultnet.ToClient)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = cut.Do(ctx, "a", 1, func(context.Context) error {
			t.Error("it runs without a reservation")
			return nil
		})
		is(t, err, redoubt.ErrUnknownOutcome)
		proxy.Heal()
		eventually(t, "the unit is back", func() bool {
			i, err := v.Info(t.Context(), "a")
			return err == nil && i.Available == 1
		})
	})
}

// buyers buy and cancel until everything is sold, and retry what fails. They
// return which ids they were told are committed.
func buyers(t *testing.T, e *env, n int) (committed []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	ctx := t.Context() // without a limit of time: how long they take depends on the machine
	retry := func(call func() error) error {
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for {
			err := call()
			_, refused := errors.AsType[redoubt.ServerError](err)
			if err == nil || ctx.Err() != nil || refused ||
				errors.Is(err, stock.ErrExpired) || errors.Is(err, stock.ErrCancelled) || errors.Is(err, stock.ErrNotFound) {
				return err
			}
			select {
			case <-ctx.Done():
			case <-pace.C: // the server is down
			}
		}
	}
	for b := range n {
		v := e.itemsOn(e.ClientAt(e.Addr))
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprint(b, "-", i)
				soldOut := false
				err := retry(func() error {
					r, _, err := v.ReserveRequest(ctx, "a", stock.Request{ID: id, N: 1})
					soldOut = err == nil && r == nil
					return err
				})
				if soldOut {
					return
				}
				if err == nil && i%3 == 0 {
					err = retry(func() error { return v.Cancel(ctx, "a", id) })
				} else if err == nil {
					if err = retry(func() error { return v.Commit(ctx, "a", id) }); err == nil {
						mu.Lock()
						committed = append(committed, id)
						mu.Unlock()
					}
				}
				if err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return committed
}

// The scripts are forgotten again and again while many buy.
//
// Promise: Reserve, Commit, Cancel and Set may be repeated, and are sent again after a lost
// reply, with one effect and the same answer.
func TestScriptFlush(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const units = 200
		_, err := e.items().Set(t.Context(), "a", units)
		must(t, err)
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					if err := e.Redis.ScriptFlush(t.Context()).Err(); err != nil {
						t.Error(err)
					}
				}
			}
		})
		committed := buyers(t, e, 6)
		close(done)
		wg.Wait()
		if len(committed) < units-6 {
			t.Errorf("%d of %d sold", len(committed), units)
		}
		n := int64(len(committed))
		e.wants(t, "a", counts{units, units - n, 0, n})
	})
}

// The server is killed and started again while many buy. Whatever was
// acknowledged is there, and nothing else.
//
// Promise: With appendonly and appendfsync always, acknowledged calls survive a killed server.
func TestKilledServer(t *testing.T) {
	slow.Test(t, "it kills servers at work")
	t.Parallel()
	const units = 1000
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	e := &env{testenv.New(t, redistest.Backend{Addr: server.Addr(), Prefix: "t"})}
	_, err := e.items().Set(t.Context(), "a", units)
	must(t, err)
	sold := func() int64 {
		i, err := e.items().Info(t.Context(), "a")
		if err != nil {
			return 0
		}
		return i.Sold
	}
	var committed []string
	var wg sync.WaitGroup
	wg.Go(func() { committed = buyers(t, e, 6) })
	t.Cleanup(wg.Wait) // they end with the context of the test
	for _, at := range []int64{50, 250, 500} {
		eventually(t, "some are sold", func() bool { return sold() > at })
		server.Restart()
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	n := int64(len(committed))
	if n < units-6 {
		t.Errorf("%d of %d sold", n, units)
	}
	e.wants(t, "a", counts{units, units - n, 0, n})
	v := e.items()
	for _, id := range committed {
		if err := v.Commit(t.Context(), "a", id); err != nil {
			t.Fatalf("%s was committed: %v", id, err)
		}
	}
}

// A reservation that somebody was told has run out stays so when the server's clock steps back.
func TestExpiredStaysExpired(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		const name = "item"
		items := e.items()
		_, err := items.Add(t.Context(), name, 5)
		must(t, err)
		request := stock.Request{ID: "a", N: 2, TTL: time.Second}
		_, _, err = items.ReserveRequest(t.Context(), name, request)
		must(t, err)
		e.Clock.Advance(2 * time.Second)
		if _, _, err := items.ReserveRequest(t.Context(), name, request); !errors.Is(err, stock.ErrExpired) {
			t.Fatalf("the same request after its time: %v", err)
		}
		e.Clock.Advance(-2 * time.Second)
		if err := items.Commit(t.Context(), name, "a"); !errors.Is(err, stock.ErrExpired) {
			t.Errorf("commit after the clock has stepped back: %v", err)
		}
		if i, err := items.Info(t.Context(), name); err != nil || i.Available != 5 || i.Sold != 0 || i.Reservations != 0 {
			t.Errorf("%+v, %v", i, err)
		}
	})
}
