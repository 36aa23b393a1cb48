package ttlhash_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/ttlhash"
)

func TestFields(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx, h := t.Context(), e.hashes
		e.expect("a", "-")
		e.set("h", "a", "1", time.Hour)
		e.set("h", "b", "", ttlhash.Never)
		e.set("h", "", "no name", time.Minute)
		odd := strings.Repeat("\x00ü", 10_000)
		e.set("h", strings.Repeat("x", ttlhash.MaxField), odd, ttlhash.MaxTTL)
		e.expect("a", "1", "b", "", "", "no name", strings.Repeat("x", ttlhash.MaxField), odd, "c", "-")
		e.set("h", "a", "2", time.Minute)
		e.expect("a", "2")

		item, ok, err := h.GetItem(ctx, "h", "a")
		must(t, err)
		if !ok || item.Field != "a" || item.Value != "2" || item.TTL > time.Minute || item.TTL < 30*time.Second {
			t.Errorf("%v %+v", ok, item)
		}
		for field, want := range map[string]time.Duration{"a": time.Minute, "b": ttlhash.Never} {
			ttl, ok, err := h.TTL(ctx, "h", field)
			must(t, err)
			if !ok || ttl > want || ttl < want/2 {
				t.Errorf("%s: %v %v", field, ttl, ok)
			}
		}
		_, ok, err = h.TTL(ctx, "h", "c")
		must(t, err)
		many, err := h.GetMany(ctx, "h", []string{"a", "c", "b"})
		must(t, err)
		if ok || len(many) != 2 || many["a"].Value != "2" || many["b"].TTL != ttlhash.Never {
			t.Errorf("%v %v", ok, many)
		}
		n, err := h.Len(ctx, "h")
		must(t, err)
		deleted, err := h.Remove(ctx, "h", "a", "c", "a")
		must(t, err)
		if n != 4 || deleted != 1 {
			t.Errorf("%d fields, %d deleted", n, deleted)
		}
		v, ok, err := h.Take(ctx, "h", "")
		must(t, err)
		_, again, err := h.Take(ctx, "h", "")
		must(t, err)
		if v != "no name" || !ok || again {
			t.Errorf("taken %q %v, and again %v", v, ok, again)
		}
		for _, want := range []bool{true, false} {
			if deleted, err := h.Delete(ctx, "h"); deleted != want || err != nil {
				t.Errorf("deleted %v, %v", deleted, err)
			}
		}
		e.expect("b", "-")
		if left := e.left("h"); left != nil {
			t.Errorf("left: %v", left)
		}
	})
}

// Many items are set and found again: in parts, with fields that come twice.
func TestMany(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx, h := t.Context(), e.hashes
		want := map[string]string{}
		var items []ttlhash.Item
		for i := range 5000 {
			field := fmt.Sprint("f", i%4800)
			ttl := time.Hour + time.Duration(i)*time.Second
			items = append(items, ttlhash.Item{Field: field, Value: fmt.Sprint(i), TTL: ttl})
			want[field] = fmt.Sprint(i)
		}
		must(t, h.SetMany(ctx, "h", items))
		must(t, h.SetMany(ctx, "h", nil))
		got := map[string]string{}
		for item, err := range h.All(ctx, "h", "") {
			must(t, err)
			if item.TTL < time.Minute || item.TTL > 3*time.Hour {
				t.Fatalf("%+v", item)
			}
			got[item.Field] = item.Value
		}
		if !maps.Equal(got, want) {
			t.Errorf("%d items, want %d", len(got), len(want))
		}
		many, err := h.GetMany(ctx, "h", slices.Collect(maps.Keys(want)))
		must(t, err)
		for field, value := range want {
			if many[field].Value != value {
				t.Fatalf("%s is %q, want %q", field, many[field].Value, value)
			}
		}
		n := 0
		for item, err := range h.All(ctx, "h", "f47[0-4]?") {
			must(t, err)
			if n++; len(item.Field) != 5 {
				t.Error(item.Field)
			}
		}
		if n != 50 {
			t.Errorf("%d match", n)
		}
		for _, err := range h.All(ctx, "h", "") {
			must(t, err)
			break
		}
		e.set("other", "f", "v", time.Hour)
		var names []string
		for name, err := range h.List(ctx, "*") {
			must(t, err)
			names = append(names, name)
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"h", "other"}) {
			t.Errorf("names: %v", names)
		}
	})
}

// One script handles several fields of 1 MiB together at most: SetMany goes in parts, what must be
// atomic is refused, and a field alone may have 1 MiB.
//
// Promise: An atomic write of several fields with more than 1 MiB is refused and changes nothing;
// SetMany sets them in parts.
func TestLargeFields(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx, h := t.Context(), e.hashes
		value := strings.Repeat("x", ttlhash.MaxBytes/2+1)
		large := []ttlhash.Item{{"a", value, time.Hour}, {"b", value, time.Hour}, {"c", "small", time.Hour}}
		_, err := h.SetIfAbsent(ctx, "h", large...)
		is(t, err, ttlhash.ErrTooLarge)
		if left := e.left("h"); left != nil {
			t.Errorf("written: %v", left)
		}
		must(t, h.SetMany(ctx, "h", large))
		for _, i := range large {
			e.expect(i.Field, i.Value)
		}
		_, err = h.Remove(ctx, "h", "a", "b")
		is(t, err, ttlhash.ErrTooLarge)
		_, err = h.ExpireMany(ctx, "h", []string{"a", "b"}, time.Minute, ttlhash.Always)
		is(t, err, ttlhash.ErrTooLarge)
		_, err = h.SetIfPresent(ctx, "h", ttlhash.Item{"a", "1", time.Hour}, ttlhash.Item{"b", "2", time.Hour})
		is(t, err, ttlhash.ErrTooLarge)
		for _, i := range large {
			e.expect(i.Field, i.Value)
		}
		must(t, h.SetMany(ctx, "h", []ttlhash.Item{{"a", "1", time.Hour}, {"b", "2", time.Hour}})) // one by one
		n, err := h.Remove(ctx, "h", "a", "b", "c")
		must(t, err)
		if n != 3 {
			t.Errorf("%d fields were there, want 3", n)
		}
		whole := strings.Repeat("y", ttlhash.MaxValue)
		e.set("h", "a", whole, time.Hour)
		if got, ok, err := h.Take(ctx, "h", "a"); got != whole || !ok || err != nil {
			t.Errorf("%d bytes, %v, %v", len(got), ok, err)
		}
	})
}

func TestConditions(t *testing.T) {
	if text := fmt.Sprint(ttlhash.Always, ttlhash.IfLater); text != "always later" {
		t.Errorf("conditions print as %q", text)
	}
	each(t, func(t *testing.T, e *env) {
		ctx, h := t.Context(), e.hashes
		item := func(f, v string) ttlhash.Item { return ttlhash.Item{Field: f, Value: v, TTL: time.Minute} }
		try := func(set bool, err error, want bool) {
			t.Helper()
			must(t, err)
			if set != want {
				t.Errorf("set %v", set)
			}
		}
		set, err := h.SetIfPresent(ctx, "h", item("a", "0"))
		try(set, err, false)
		if left := e.left("h"); left != nil {
			t.Errorf("written: %v", left)
		}
		set, err = h.SetIfAbsent(ctx, "h", item("a", "1"))
		try(set, err, true)
		set, err = h.SetIfAbsent(ctx, "h", item("b", "2"), item("a", "2"))
		try(set, err, false)
		set, err = h.SetIfPresent(ctx, "h", item("a", "3"), item("b", "3"))
		try(set, err, false)
		e.expect("a", "1", "b", "-")
		set, err = h.SetIfPresent(ctx, "h", item("a", "4"))
		try(set, err, true)
		e.expect("a", "4")

		e.set("h", "for ever", "v", ttlhash.Never)
		for _, c := range []struct {
			field string
			ttl   time.Duration
			when  ttlhash.Condition
			want  ttlhash.Change
		}{
			{"c", time.Hour, ttlhash.Always, ttlhash.Missing},
			{"a", time.Hour, ttlhash.IfNone, ttlhash.Unchanged},
			{"a", time.Hour, ttlhash.IfSooner, ttlhash.Unchanged},
			{"a", time.Second * 30, ttlhash.IfLater, ttlhash.Unchanged},
			{"a", time.Hour, ttlhash.IfLater, ttlhash.Changed},
			{"a", 2 * time.Hour, ttlhash.IfSome, ttlhash.Changed},
			{"a", time.Minute, ttlhash.IfSooner, ttlhash.Changed},
			{"a", ttlhash.Never, ttlhash.IfSooner, ttlhash.Unchanged},
			{"a", ttlhash.Never, ttlhash.IfLater, ttlhash.Changed},
			{"for ever", time.Minute, ttlhash.IfSome, ttlhash.Unchanged},
			{"for ever", time.Minute, ttlhash.IfLater, ttlhash.Unchanged},
			{"for ever", time.Minute, ttlhash.IfSooner, ttlhash.Changed},
			{"a", time.Hour, ttlhash.IfNone, ttlhash.Changed},
			{"a", time.Minute, ttlhash.Always, ttlhash.Changed},
		} {
			got, err := h.Expire(ctx, "h", c.field, c.ttl, c.when)
			must(t, err)
			if got != c.want {
				t.Errorf("%+v: %v", c, got)
			}
			if got != ttlhash.Changed {
				continue
			}
			if ttl, _, err := h.TTL(ctx, "h", c.field); err != nil || ttl > c.ttl || ttl < c.ttl/2 {
				t.Errorf("%+v: the ttl is %v, %v", c, ttl, err)
			}
		}
		e.expect("a", "4", "for ever", "v")
		v, ok, err := h.Touch(ctx, "h", "a", time.Hour)
		must(t, err)
		_, there, err := h.Touch(ctx, "h", "c", time.Hour)
		must(t, err)
		ttl, _, err := h.TTL(ctx, "h", "a")
		must(t, err)
		if v != "4" || !ok || there || ttl < 30*time.Minute {
			t.Errorf("touched: %q %v, %v; ttl %v", v, ok, there, ttl)
		}
	})
}

// An expired field is gone for all calls, and not before its deadline: by the server's clock, whatever
// ours says.
//
// Promise: A field is there until its deadline and gone afterwards, by the server's clock, for
// every call that the server decides.
//
// Promise: Get, GetItem, GetMany and All never deny a field before its deadline, and return it late
// by at most the round trip that last brought the server's time plus a thousandth of the time
// since.
func TestDeadlines(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx, h := t.Context(), e.hashes
		e.set("h", "stays", "v", time.Hour)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				field, ttl := fmt.Sprint("f", i), time.Duration(100+10*i)*time.Millisecond
				before, err := e.time()
				if err != nil {
					t.Error(err)
					return
				}
				if err := h.Set(ctx, "h", field, "v", ttl); err != nil {
					t.Error(err)
				}
				for end := time.Now().Add(time.Minute); ; {
					_, ok, err := h.Get(ctx, "h", field)
					if err != nil {
						t.Error(err)
						return
					}
					if !ok {
						break
					}
					if time.Now().After(end) {
						t.Errorf("%s is still there", field)
						return
					}
				}
				after, err := e.time()
				if err != nil || after.Sub(before) < ttl {
					t.Errorf("denied after %v, before its ttl of %v was over: %v", after.Sub(before), ttl, err)
				}
			})
		}
		wg.Wait()
		_, ok, err := h.TTL(ctx, "h", "f0")
		must(t, err)
		_, taken, err := h.Take(ctx, "h", "f1")
		must(t, err)
		_, touched, err := h.Touch(ctx, "h", "f2", time.Hour)
		must(t, err)
		n, err := h.Remove(ctx, "h", "f3")
		must(t, err)
		set, err := h.SetIfPresent(ctx, "h", ttlhash.Item{Field: "f4", TTL: time.Hour})
		must(t, err)
		absent, err := h.SetIfAbsent(ctx, "h", ttlhash.Item{Field: "f5", Value: "new", TTL: time.Hour})
		must(t, err)
		if ok || taken || touched || n != 0 || set || !absent {
			t.Errorf("of what is over: ttl %v, taken %v, touched %v, deleted %d, set %v, absent %v", ok, taken, touched, n, set, absent)
		}
		e.expect("stays", "v", "f5", "new", "f6", "-")
		var found []string
		for item, err := range h.All(ctx, "h", "") {
			must(t, err)
			found = append(found, item.Field)
		}
		slices.Sort(found)
		if !slices.Equal(found, []string{"f5", "stays"}) {
			t.Errorf("found %v", found)
		}
		await.Until(t, time.Minute, "what is over is swept", func() bool {
			n, err := h.Len(ctx, "h")
			must(t, err)
			return n == 2
		})
	})
}

// One of several callers takes a field, or sets an absent one.
//
// Promise: Of several callers that set an absent field, or take a field, one succeeds.
func TestOneOfSeveralCallersSucceeds(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		for i := range 20 {
			var set, taken atomic.Int64
			for _, step := range []func(){
				func() {
					ok, err := e.hashes.SetIfAbsent(t.Context(), "h", ttlhash.Item{Field: fmt.Sprint(i), TTL: time.Minute})
					if err != nil {
						t.Error(err)
					}
					if ok {
						set.Add(1)
					}
				},
				func() {
					_, ok, err := e.hashes.Take(t.Context(), "h", fmt.Sprint(i))
					if err != nil {
						t.Error(err)
					}
					if ok {
						taken.Add(1)
					}
				},
			} {
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(step)
				}
				wg.Wait()
			}
			if set.Load() != 1 || taken.Load() != 1 {
				t.Fatalf("%d set it, %d took it", set.Load(), taken.Load())
			}
		}
	})
}

// A read is one command in one round trip, and no script. A second after the last look
// at the server's clock another comes with it.
//
// Promise: Get, GetItem and GetMany are one round trip without a script.
func TestRoundTrips(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := &clienttest.Counter{Conn: e.Conn}
		_, h := e.on(c, ttlhash.Options{})
		ctx := t.Context()
		trips := func(what string, want, scripts int64, call func() error) {
			t.Helper()
			c.Trips.Store(0)
			c.Scripts.Store(0)
			must(t, call())
			if c.Trips.Load() != want || c.Scripts.Load() != scripts {
				t.Errorf("%s: %d round trips, %d scripts", what, c.Trips.Load(), c.Scripts.Load())
			}
		}
		get := func() error { _, _, err := h.Get(ctx, "h", "f"); return err }
		trips("a first Get", 1, 1, get) // one asks for the time
		trips("Get", 1, 0, get)
		trips("GetMany", 1, 0, func() error { _, err := h.GetMany(ctx, "h", []string{"f", "g"}); return err })
		first := int64(1)
		if e.native {
			first = 2 // whether the server expires fields
		}
		trips("a first Set", first, 1, func() error { return h.Set(ctx, "h", "f", "v", time.Hour) })
		trips("Set", 1, 1, func() error { return h.Set(ctx, "h", "f", "v", time.Hour) })
		trips("Get", 1, 0, get)
		items := make([]ttlhash.Item, 4096)
		for i := range items {
			items[i] = ttlhash.Item{Field: fmt.Sprint(i), TTL: time.Hour}
		}
		trips("SetMany", 1, 32, func() error { return h.SetMany(ctx, "h", items) })
		trips("Touch", 1, 1, func() error { _, _, err := h.Touch(ctx, "h", "f", time.Hour); return err })
	})
}

// Promise: Bad input is refused, and nothing is written.
func TestBadInput(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx, h := t.Context(), e.hashes
		if _, err := ttlhash.New(nil, ttlhash.Options{}); err == nil {
			t.Error("a client of nil is taken")
		}
		for _, ttl := range []time.Duration{0, -1, -time.Second, time.Microsecond, time.Millisecond + 1, ttlhash.MaxTTL + time.Millisecond, ttlhash.Never - 1} {
			want := fmt.Sprintf("ttl is %v; want whole milliseconds from 1ms to 876000h0m0s, or Never", ttl)
			says(t, h.Set(ctx, "h", "f", "v", ttl), want)
			says(t, h.SetMany(ctx, "h", []ttlhash.Item{{"a", "v", time.Second}, {"b", "v", ttl}}), want)
			_, _, err := h.Touch(ctx, "h", "f", ttl)
			says(t, err, want)
		}
		long := strings.Repeat("x", ttlhash.MaxField+1)
		_, getErr := h.GetMany(ctx, "h", []string{long})
		_, _, takeErr := h.Take(ctx, "h", long)
		for _, err := range []error{h.Set(ctx, "h", long, "v", time.Second), getErr, takeErr} {
			says(t, err, "field has 1025 bytes; want at most 1024")
		}
		for _, name := range []string{"", "}", strings.Repeat("x", redoubt.MaxName+1)} {
			is(t, h.Set(ctx, name, "f", "v", time.Second), redoubt.ErrInvalidName)
			_, _, err := h.Get(ctx, name, "f")
			is(t, err, redoubt.ErrInvalidName)
			_, err = h.Sweep(ctx, name)
			is(t, err, redoubt.ErrInvalidName)
			for _, err := range h.All(ctx, name, "") {
				is(t, err, redoubt.ErrInvalidName)
			}
		}
		_, err := h.Remove(ctx, "h")
		says(t, err, "there are 0 fields; want 1 to 128")
		_, err = h.SetIfAbsent(ctx, "h", make([]ttlhash.Item, 129)...)
		says(t, err, "there are 129 items; want 1 to 128")
		_, err = h.Expire(ctx, "h", "f", time.Second, 9)
		says(t, err, "condition is 9; want Always, IfNone, IfSome, IfLater or IfSooner")
		for _, err := range h.Expired(ctx, "h", "x") {
			says(t, err, `"x" is not the ID of an event`)
		}
		says(t, h.Set(ctx, "", "f", "v", 0), "invalid name: it is empty; want 1 to 512 bytes\nttlhash: ttl is 0s")
		if left := e.left("h"); left != nil {
			t.Errorf("written: %v", left)
		}

		must(t, e.Redis.Set(ctx, e.Key("h", "ttlhash"), "text", 0).Err())
		for _, err := range []error{h.Set(ctx, "h", "f", "v", time.Second), h.SetMany(ctx, "h", make([]ttlhash.Item, 0))} {
			if err != nil {
				is(t, err, redoubt.ErrWrongType)
			}
		}
		_, _, err = h.Get(ctx, "h", "f")
		is(t, err, redoubt.ErrWrongType)
		if v := e.Redis.Get(ctx, e.Key("h", "ttlhash")).Val(); v != "text" {
			t.Errorf("it is %q now", v)
		}
		must(t, e.Redis.Del(ctx, e.Key("h", "ttlhash")).Err())
		must(t, e.Redis.HSet(ctx, e.Key("h", "ttlhash"), "f", "short").Err())
		_, _, err = h.Get(ctx, "h", "f")
		is(t, err, ttlhash.ErrForeign)
		e.set("h", "f", "ours", time.Hour)
		e.expect("f", "ours")
	})
}

// Reads go by the server's clock, which is an hour ahead of ours here, and set.
//
// Promise: Get, GetItem, GetMany and All never deny a field before its deadline, and return it late
// by at most the round trip that last brought the server's time plus a thousandth of the time
// since.
func TestReadsGoByTheServersClock(t *testing.T) {
	emulating(t, func(t *testing.T, e *env) {
		c := e.freeze()
		e.set("h", "stays", "v", 10*time.Hour)
		e.set("h", "f", "v", time.Minute)
		e.expect("f", "v")
		c.Advance(61 * time.Second)
		other := *e
		other.hashes = e.with(ttlhash.Options{})
		// The first read asks for the time, the second knows it.
		other.expect("f", "-", "f", "-", "stays", "v")
		// Any reply with the server's time corrects a process that assumed another time.
		e.set("h", "g", "v", time.Second)
		e.expect("f", "-")
		c.Advance(-time.Hour)
		e.set("h", "back", "v", time.Minute)
		e.expect("back", "v")
		// A process that only reads learns within a second that the field was set.
		c.Advance(2 * time.Hour)
		await.Until(t, time.Minute, "a read asks for the time", func() bool { return e.get("back") == "-" })
		e.expect("stays", "v")
	})
}
