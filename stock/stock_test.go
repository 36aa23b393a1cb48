package stock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
	"github.com/redoubt-go/redoubt/stock"
)

func TestReserveCommitCancel(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v := e.items()
		if short := refused(t, v, "a", 1); short != (stock.Shortage{}) {
			t.Errorf("of an item that was never set: %+v", short)
		}
		_, err := v.Set(t.Context(), "a", 10)
		must(t, err)
		reserve(t, v, "a", "one", 3)
		reserve(t, v, "a", "two", 4)
		e.wants(t, "a", counts{10, 3, 7, 0})

		short := refused(t, v, "a", 4)
		if short.Available != 3 || short.Reserved != 7 || short.Next <= 50*time.Second || short.Next > time.Minute {
			t.Errorf("of 3: %+v", short)
		}
		must(t, v.Commit(t.Context(), "a", "one"))
		e.wants(t, "a", counts{10, 3, 4, 3})
		must(t, v.Cancel(t.Context(), "a", "two"))
		e.wants(t, "a", counts{10, 7, 0, 3})
		is(t, v.Commit(t.Context(), "a", "three"), stock.ErrNotFound)

		for _, want := range []bool{true, false} {
			if deleted, err := v.Delete(t.Context(), "a"); deleted != want || err != nil {
				t.Errorf("deleted %v, %v", deleted, err)
			}
		}
		is(t, v.Commit(t.Context(), "a", "one"), stock.ErrNotFound)
		if n := e.Redis.Exists(t.Context(), e.Key("a", "stock"), e.Key("a", "due"), e.Key("a", "over")).Val(); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// Every call that is repeated gives the answer that it gave, and changes
// nothing.
//
// Promise: A reservation ends once: committed, cancelled or expired.
//
// Promise: Reserve, Commit, Cancel and Set may be repeated, and are sent again after a lost
// reply, with one effect and the same answer.
func TestRepeatedCalls(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		v := e.items()
		_, err := v.Set(t.Context(), "a", 10)
		must(t, err)
		again := func(what string, want counts, call func() error, wantErr error) {
			t.Helper()
			for range 3 {
				if err := call(); !errors.Is(err, wantErr) {
					t.Errorf("%s: %v, want %v", what, err, wantErr)
				}
				e.wants(t, "a", want)
				e.Clock.Advance(time.Second)
			}
		}
		take := func(id string) func() error {
			return func() error {
				_, short, err := v.ReserveRequest(t.Context(), "a", stock.Request{ID: id, N: 4, TTL: time.Minute})
				if short != nil {
					return fmt.Errorf("only %+v", *short)
				}
				return err
			}
		}
		commit := func(id string) func() error { return func() error { return v.Commit(t.Context(), "a", id) } }
		cancel := func(id string) func() error { return func() error { return v.Cancel(t.Context(), "a", id) } }

		again("reserve", counts{10, 6, 4, 0}, take("a"), nil)
		if _, _, err := v.ReserveRequest(t.Context(), "a", stock.Request{ID: "a", N: 5}); !errors.Is(err, stock.ErrMismatch) {
			t.Errorf("another number under the same id: %v", err)
		}
		again("commit", counts{10, 6, 0, 4}, commit("a"), nil)
		again("cancel of a committed one", counts{10, 6, 0, 4}, cancel("a"), stock.ErrCommitted)
		again("reserve of a committed one", counts{10, 6, 0, 4}, take("a"), stock.ErrCommitted)

		must(t, take("b")())
		again("cancel", counts{10, 6, 0, 4}, cancel("b"), nil)
		again("commit of a cancelled one", counts{10, 6, 0, 4}, commit("b"), stock.ErrCancelled)
		again("reserve of a cancelled one", counts{10, 6, 0, 4}, take("b"), stock.ErrCancelled)

		must(t, take("c")())
		e.Clock.Advance(time.Minute - time.Microsecond)
		must(t, take("c")())
		e.Clock.Advance(time.Microsecond)
		again("commit of one that ran out", counts{10, 6, 0, 4}, commit("c"), stock.ErrExpired)
		again("cancel of one that ran out", counts{10, 6, 0, 4}, cancel("c"), stock.ErrExpired)
		again("reserve of one that ran out", counts{10, 6, 0, 4}, take("c"), stock.ErrExpired)

		must(t, take("d")())
		e.Clock.Advance(time.Minute)
		is(t, take("d")(), stock.ErrExpired) // before anybody returned it

		// A reserve that comes after its cancel takes nothing.
		again("cancel before the reserve", counts{10, 6, 0, 4}, cancel("e"), stock.ErrNotFound)
		again("the reserve after it", counts{10, 6, 0, 4}, take("e"), stock.ErrCancelled)
		again("the commit after both", counts{10, 6, 0, 4}, commit("e"), stock.ErrNotFound)
	})
}

// Expired units come back when a buyer needs them, without a background process.
//
// Promise: Expired units can be reserved again at once.
func TestExpiredUnitsComeBack(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		v := e.items()
		_, err := v.Set(t.Context(), "a", 10)
		must(t, err)
		for i := range 10 {
			reserve(t, v, "a", fmt.Sprint("first", i), 1)
			e.Clock.Advance(time.Second)
		}
		e.Clock.Advance(49 * time.Second)
		if short := refused(t, v, "a", 1); short.Available != 0 || short.Reserved != 10 || short.Next != time.Second {
			t.Errorf("a second before the first runs out: %+v", short)
		}
		e.Clock.Advance(time.Second)
		reserve(t, v, "a", "second", 1)
		refused(t, v, "a", 1)
		e.Clock.Advance(4 * time.Second)
		reserve(t, v, "a", "third", 4)
		refused(t, v, "a", 1)
		e.Clock.Advance(3 * time.Second)
		e.wants(t, "a", counts{10, 3, 7, 0})
		_, err = v.Add(t.Context(), "a", -3)
		must(t, err)
		_, err = v.Add(t.Context(), "a", -1)
		is(t, err, stock.ErrBelowZero)
		e.Clock.Advance(time.Second)
		_, err = v.Set(t.Context(), "a", 6)
		must(t, err)
		e.wants(t, "a", counts{6, 0, 6, 0})
	})
}

// More have run out than one call returns.
//
// Promise: Expired units can be reserved again at once.
func TestMoreExpiredThanABatch(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		const many = 1200
		v := e.items()
		fill := func(name string) {
			t.Helper()
			_, err := v.Set(t.Context(), name, many)
			must(t, err)
			keys, err := wire.KeysOf(e.Client, name)
			must(t, err)
			var cmds []redoubt.Cmd
			for i := range many {
				cmds = append(cmds, wire.ReserveCmd(keys, fmt.Sprint(i), 1, time.Minute))
			}
			for _, r := range e.Client.Pipeline(t.Context(), cmds) {
				if a, err := wire.ReadAttempt(r); err != nil || a.Status != wire.Reserved {
					t.Fatal(a, err)
				}
			}
			e.Clock.Advance(time.Minute)
		}
		fill("a")
		reserve(t, v, "a", "all", many)
		e.wants(t, "a", counts{many, 0, many, 0})
		fill("b")
		refused(t, v, "b", many+1)
		e.wants(t, "b", counts{many, many, 0, 0})
		fill("c")
		e.wants(t, "c", counts{many, many, 0, 0})
		fill("d")
		_, err := v.Add(t.Context(), "d", -many)
		must(t, err)
		e.wants(t, "d", counts{})

		// One for one unit never needs a second call.
		fill("e")
		keys, err := wire.KeysOf(e.Client, "e")
		must(t, err)
		for _, n := range []int64{1, 512} {
			a, err := wire.ReadAttempt(e.Client.Do(t.Context(), wire.ReserveCmd(keys, fmt.Sprint("n", n), n, time.Minute)))
			if err != nil || a.Status != wire.Reserved {
				t.Errorf("%d: %+v, %v", n, a, err)
			}
		}
		a, err := wire.ReadAttempt(e.Client.Do(t.Context(), wire.ReserveCmd(keys, "n", 520, time.Minute)))
		if err != nil || a.Status != wire.Again {
			t.Errorf("520 of %+v: want that it be repeated, %v", a, err)
		}
	})
}

// Reservations that nobody ends don't pile up, nor do ids that are over.
//
// Promise: The reservations of one TTL and of the last hour bound the stored data.
func TestStoredDataIsBounded(t *testing.T) {
	eachFrozen(t, func(t *testing.T, e *env) {
		v := e.items()
		_, err := v.Set(t.Context(), "a", 1_000_000)
		must(t, err)
		card := func(part string) int64 { return e.Redis.ZCard(t.Context(), e.Key("a", part)).Val() }
		for i := range 300 {
			reserve(t, v, "a", fmt.Sprint("abandoned", i), 1)
			e.Clock.Advance(5 * time.Second) // 12 in a minute
			if n := card("due"); n > 13 {
				t.Fatalf("%d reservations after %d", n, i)
			}
		}
		e.Clock.Advance(stock.Remembered)
		for i := range 300 {
			id := fmt.Sprint("sold", i)
			reserve(t, v, "a", id, 1)
			must(t, v.Commit(t.Context(), "a", id))
			e.Clock.Advance(stock.Remembered / 10)
		}
		if n := card("over"); n > 12 {
			t.Errorf("%d ids are remembered, of 10 in the last hour", n)
		}
		is(t, v.Commit(t.Context(), "a", "sold291"), nil)
		is(t, v.Commit(t.Context(), "a", "sold280"), stock.ErrNotFound)
		e.wants(t, "a", counts{1_000_000, 1_000_000 - 300, 0, 300})
		_, err = v.Set(t.Context(), "b", 1)
		must(t, err)
		reserve(t, v, "b", "one", 1)
		must(t, v.Commit(t.Context(), "b", "one"))
		for _, name := range []string{"a", "b"} {
			if ttl := e.Redis.PTTL(t.Context(), e.Key(name, "over")).Val(); ttl <= stock.Remembered || ttl > stock.Remembered+time.Minute {
				t.Errorf("the ids of an item that nobody uses any more stay for %v", ttl)
			}
		}
		hash := e.Redis.HLen(t.Context(), e.Key("a", "stock")).Val()
		if hash != 5 || card("due") != 0 {
			t.Errorf("%d fields and %d reservations are left", hash, card("due"))
		}
	})
}

func TestSetAndAdd(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v := e.items()
		check := func(i stock.Info, err error, want counts, wantErr error) {
			t.Helper()
			if !errors.Is(err, wantErr) {
				t.Errorf("error %v, want %v", err, wantErr)
			}
			if got := (counts{i.Total, i.Available, i.Reserved, i.Sold}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			e.audit(t, "a")
		}
		i, err := v.Set(t.Context(), "a", 10)
		check(i, err, counts{10, 10, 0, 0}, nil)
		reserve(t, v, "a", "one", 3)
		reserve(t, v, "a", "two", 2)
		must(t, v.Commit(t.Context(), "a", "one"))
		i, err = v.Set(t.Context(), "a", 10) // the import runs again
		check(i, err, counts{10, 5, 2, 3}, nil)
		i, err = v.Set(t.Context(), "a", 5)
		check(i, err, counts{5, 0, 2, 3}, nil)
		i, err = v.Set(t.Context(), "a", 4)
		check(i, err, counts{5, 0, 2, 3}, stock.ErrBelowZero)
		i, err = v.Add(t.Context(), "a", 7)
		check(i, err, counts{12, 7, 2, 3}, nil)
		i, err = v.Add(t.Context(), "a", -8)
		check(i, err, counts{12, 7, 2, 3}, stock.ErrBelowZero)
		i, err = v.Add(t.Context(), "a", -7)
		check(i, err, counts{5, 0, 2, 3}, nil)

		// The largest possible stock is counted exactly.
		_, err = v.Set(t.Context(), "b", stock.MaxUnits)
		must(t, err)
		reserve(t, v, "b", "one", stock.MaxUnits-1)
		must(t, v.Commit(t.Context(), "b", "one"))
		reserve(t, v, "b", "two", 1)
		e.wants(t, "b", counts{stock.MaxUnits, 0, 1, stock.MaxUnits - 1})
		if _, err := v.Add(t.Context(), "b", 1); err == nil {
			t.Error("more than MaxUnits")
		}
		e.wants(t, "b", counts{stock.MaxUnits, 0, 1, stock.MaxUnits - 1})
	})
}

// Many processes want more than there is. Everything is sold, nothing twice.
//
// Promise: Available, reserved and sold units together are always the total that was set and
// added.
func TestConcurrentBuyers(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		const units, buyers, tries = 100, 8, 40
		_, err := e.items().Set(t.Context(), "a", units)
		must(t, err)
		var sold, dropped atomic.Int64
		var wg sync.WaitGroup
		for b := range buyers {
			v := e.itemsOn(e.ClientAt(e.Addr))
			wg.Go(func() {
				for i := range tries {
					n := int64(1 + (b+i)%3)
					r, _, err := v.Reserve(t.Context(), "a", n)
					if err != nil || r == nil {
						if err != nil {
							t.Error(err)
						}
						continue
					}
					if i%4 == 0 {
						dropped.Add(n)
						err = v.Cancel(t.Context(), "a", r.ID)
					} else {
						sold.Add(n)
						err = v.Commit(t.Context(), "a", r.ID)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if sold.Load() < units-2 || dropped.Load() == 0 {
			t.Errorf("%d of %d sold, %d cancelled", sold.Load(), units, dropped.Load())
		}
		e.wants(t, "a", counts{units, units - sold.Load(), 0, sold.Load()})
	})
}

func TestDo(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v := e.items()
		_, err := v.Set(t.Context(), "a", 3)
		must(t, err)
		short, err := v.Do(t.Context(), "a", 2, func(ctx context.Context) error {
			e.wants(t, "a", counts{3, 1, 2, 0})
			if end, ok := ctx.Deadline(); !ok || time.Until(end) > time.Minute-time.Minute/100 {
				t.Errorf("the deadline is in %v", time.Until(end))
			}
			return nil
		})
		if short != nil || err != nil {
			t.Errorf("%+v, %v", short, err)
		}
		e.wants(t, "a", counts{3, 1, 0, 2})

		short, err = v.Do(t.Context(), "a", 2, func(context.Context) error {
			t.Error("it runs although there is too little")
			return nil
		})
		if short == nil || short.Available != 1 || err != nil {
			t.Errorf("%+v, %v", short, err)
		}

		declined := errors.New("declined")
		_, err = v.Do(t.Context(), "a", 1, func(context.Context) error { return declined })
		if !errors.Is(err, declined) || strings.Contains(err.Error(), "stock") {
			t.Errorf("%v, want that of the function alone", err)
		}
		e.wants(t, "a", counts{3, 1, 0, 2})

		func() {
			defer func() { _ = recover() }()
			_, _ = v.Do(t.Context(), "a", 1, func(context.Context) error { panic("x") })
		}()
		e.wants(t, "a", counts{3, 1, 0, 2})

		// The caller is gone before the end: the units are committed all the same.
		ctx, cancel := context.WithCancel(t.Context())
		_, err = v.Do(ctx, "a", 1, func(context.Context) error { cancel(); return nil })
		must(t, err)
		e.wants(t, "a", counts{3, 0, 0, 3})
	})
}

// A function that takes too long is told so, and sells nothing.
func TestDoRunsOutOfTime(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		v, err := stock.New(e.Client, stock.Options{TTL: 30 * time.Millisecond})
		must(t, err)
		_, err = v.Set(t.Context(), "a", 1)
		must(t, err)
		_, err = v.Do(t.Context(), "a", 1, func(ctx context.Context) error {
			<-ctx.Done()
			is(t, context.Cause(ctx), stock.ErrExpired)
			eventually(t, "the unit is back", func() bool {
				i, err := v.Info(t.Context(), "a")
				return err == nil && i.Available == 1
			})
			return nil
		})
		is(t, err, stock.ErrExpired)
		e.wants(t, "a", counts{1, 1, 0, 0})
	})
}

func TestBadInput(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for _, ttl := range []time.Duration{-1, 1, time.Millisecond - 1, stock.MaxTTL + 1} {
			if _, err := stock.New(e.Client, stock.Options{TTL: ttl}); err == nil {
				t.Errorf("a TTL of %v", ttl)
			}
		}
		_, err := stock.New(nil, stock.Options{TTL: -1})
		if err == nil || !strings.Contains(err.Error(), "client") || !strings.Contains(err.Error(), "ttl") {
			t.Errorf("error %v, want both faults", err)
		}
		v := e.items()
		for _, r := range []stock.Request{{}, {N: -1}, {N: stock.MaxUnits + 1}, {N: 1, TTL: 1}, {N: 1, TTL: -1}, {N: 1, ID: strings.Repeat("x", 257)}} {
			if _, _, err := v.ReserveRequest(t.Context(), "a", r); err == nil {
				t.Errorf("%+v was accepted", r)
			}
		}
		_, _, err = v.Reserve(t.Context(), "}", 1)
		is(t, err, redoubt.ErrInvalidName)
		_, err1 := v.Set(t.Context(), "a", -1)
		_, err2 := v.Set(t.Context(), "a", stock.MaxUnits+1)
		_, err3 := v.Add(t.Context(), "a", stock.MaxUnits+1)
		_, err4 := v.Add(t.Context(), "", 1)
		_, err5 := v.Delete(t.Context(), "")
		for i, err := range []error{err1, err2, err3, err4, err5, v.Commit(t.Context(), "a", ""), v.Cancel(t.Context(), "}", "x")} {
			if err == nil {
				t.Errorf("call %d was accepted", i)
			}
		}
		// Names and ids are any bytes.
		const odd = "\x00\xff\r\n}{"
		_, err = v.Set(t.Context(), odd, 1)
		must(t, err)
		reserve(t, v, odd, odd, 1)
		must(t, v.Commit(t.Context(), odd, odd))
		// Ids that look like what else is in the hash.
		_, err = v.Set(t.Context(), "a", 3)
		must(t, err)
		for _, id := range []string{"total", "available", "sold"} {
			reserve(t, v, "a", id, 1)
		}
		e.wants(t, "a", counts{3, 0, 3, 0})

		must(t, e.Redis.Set(t.Context(), e.Key("b", "stock"), "x", 0).Err())
		if _, _, err := v.Reserve(t.Context(), "b", 1); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("a key of another type: %v", err)
		}
	})
}
