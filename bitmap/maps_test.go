package bitmap_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bitmap"
)

const shard = 1 << 18

func (e *env) maps() *bitmap.Maps {
	e.T.Helper()
	ms, err := bitmap.New(e.Client, bitmap.Options{})
	must(e.T, err)
	return ms
}

// mapsOn returns the maps of another process.
func (e *env) mapsOn(conn redoubt.Conn) *bitmap.Maps {
	e.T.Helper()
	ms, err := bitmap.New(e.ClientOn(conn), bitmap.Options{})
	must(e.T, err)
	return ms
}

// A set is a map as it should be.
type set map[uint64]bool

func (s set) sorted() []uint64 { return slices.Sorted(maps.Keys(s)) }

// near returns an offset near the limits of bytes, of shards, of 2^32, and of a map.
func near(rng *rand.Rand) uint64 {
	places := []uint64{0, 8, shard, 2 * shard, 100 * shard, 1 << 32, 1<<32 + 40*shard, 1 << 53, bitmap.MaxOffset - 10}
	return places[rng.IntN(len(places))] + uint64(rng.IntN(11))
}

// Promise: a map answers as a set of numbers.
func TestMapAgreesWithModel(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ms, rng, model := e.maps(), rand.New(rand.NewPCG(3, 4)), set{}
		for step := range 150 {
			var offsets []uint64
			want := int64(0)
			on := rng.IntN(3) > 0
			for range 1 + rng.IntN(10) {
				o := near(rng)
				if offsets = append(offsets, o); model[o] != on {
					want++
				}
				if model[o] = true; !on {
					delete(model, o)
				}
			}
			do := ms.Set
			if !on {
				do = ms.Remove
			}
			changed, err := do(t.Context(), "m", offsets...)
			must(t, err)
			if changed != want {
				t.Fatalf("step %d: %d of %v changed, want %d", step, changed, offsets, want)
			}
			if step%5 == 0 {
				agrees(t, ms, "m", model, rng)
			}
		}
		deleted, err := ms.Delete(t.Context(), "m")
		must(t, err)
		if !deleted || len(e.Keys()) != 0 {
			t.Errorf("deleted: %v, and %d keys are left", deleted, len(e.Keys()))
		}
		agrees(t, ms, "m", set{}, rng)
	})
}

// agrees compares a map with a set.
func agrees(t *testing.T, ms *bitmap.Maps, name string, model set, rng *rand.Rand) {
	t.Helper()
	n, err := ms.Count(t.Context(), name)
	must(t, err)
	if n != int64(len(model)) {
		t.Fatalf("%d bits are set, want %d", n, len(model))
	}
	sorted := model.sorted()
	for range 5 {
		from, to := near(rng), near(rng)
		if from > to {
			from, to = to, from
		}
		var want []uint64
		for _, o := range sorted {
			if o >= from && o <= to {
				want = append(want, o)
			}
		}
		n, err := ms.CountRange(t.Context(), name, from, to)
		must(t, err)
		var got []uint64
		for o, err := range ms.Range(t.Context(), name, from, to) {
			must(t, err)
			got = append(got, o)
		}
		if n != int64(len(want)) || !slices.Equal(got, want) {
			t.Fatalf("from %d to %d: %d, %v; want %v", from, to, n, got, want)
		}
		first, ok, err := ms.First(t.Context(), name, from)
		must(t, err)
		i, _ := slices.BinarySearch(sorted, from)
		if ok != (i < len(sorted)) || ok && first != sorted[i] {
			t.Fatalf("the first at %d or after it is %d, %v", from, first, ok)
		}
	}
	var offsets []uint64
	for range 20 {
		offsets = append(offsets, near(rng))
	}
	set, err := ms.GetMany(t.Context(), name, offsets)
	must(t, err)
	for i, o := range offsets {
		if set[i] != model[o] {
			t.Fatalf("bit %d is %v", o, set[i])
		}
	}
	one, err := ms.Get(t.Context(), name, offsets[0])
	must(t, err)
	if one != set[0] {
		t.Fatalf("bit %d by itself is %v", offsets[0], one)
	}
}

// Many bits are sent together. A new shard costs three more round trips, once.
//
// Promise: many calendars, bits or records are one round trip to each server.
func TestMapRoundTrips(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ms := e.maps()
		var offsets []uint64
		for i := range uint64(5000) {
			offsets = append(offsets, i*100)
		}
		set := func() (n int64) {
			n, err := ms.Set(t.Context(), "m", offsets...)
			must(t, err)
			return n
		}
		if n := e.tripsOf(func() {
			if changed := set(); changed != 5000 {
				t.Errorf("%d changed", changed)
			}
		}); n != 4 {
			t.Errorf("a Set that makes shards took %d round trips, want 4", n)
		}
		if n := e.tripsOf(func() {
			if changed := set(); changed != 0 {
				t.Errorf("%d changed again", changed)
			}
		}); n != 1 {
			t.Errorf("a Set took %d round trips, want 1", n)
		}
		if n := e.tripsOf(func() { _, _ = ms.GetMany(t.Context(), "m", offsets) }); n != 1 {
			t.Errorf("GetMany took %d round trips, want 1", n)
		}
		if n := e.tripsOf(func() { _, _ = ms.CountRange(t.Context(), "m", 3, 490_001) }); n != 2 {
			t.Errorf("CountRange took %d round trips, want 2", n)
		}
		if n := e.tripsOf(func() { _, _, _ = ms.First(t.Context(), "m", 77) }); n != 2 {
			t.Errorf("First took %d round trips, want 2", n)
		}
		if n := e.tripsOf(func() { _, _ = ms.CountOf(t.Context(), bitmap.And, "m", "m") }); n != 2 {
			t.Errorf("CountOf took %d round trips, want 2", n)
		}
	})
}

// A map takes the memory of its shards, 32 KiB each, wherever its bits are.
func TestMapIsSparse(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ms := e.maps()
		_, err := ms.Set(t.Context(), "m", 1<<40, 1<<50, bitmap.MaxOffset)
		must(t, err)
		total := int64(0)
		for _, n := range []uint64{1 << 40 / shard, 1 << 50 / shard, bitmap.MaxOffset / shard} {
			total += e.Redis.StrLen(t.Context(), e.Key(fmt.Sprint("m:", n), "bits")).Val()
		}
		if total == 0 || total > 3*32<<10 || len(e.Keys()) != 4 {
			t.Errorf("three bits take %d bytes in %d keys", total, len(e.Keys()))
		}
		// Clearing an unset bit makes no shard.
		_, err = ms.Remove(t.Context(), "m", 1<<30)
		must(t, err)
		if len(e.Keys()) != 4 {
			t.Errorf("there are %d keys", len(e.Keys()))
		}
	})
}

// Bits that are set later expire with the map.
//
// Promise: a map expires as a whole.
func TestMapExpires(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ms := e.maps()
		at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		if ok, err := ms.ExpireAt(t.Context(), "m", at); ok || err != nil {
			t.Errorf("there is no map: %v, %v", ok, err)
		}
		_, err := ms.Set(t.Context(), "m", 1)
		must(t, err)
		ok, err := ms.ExpireAt(t.Context(), "m", at)
		must(t, err)
		_, err = ms.Set(t.Context(), "m", 2, shard, 5*shard)
		must(t, err)
		expiries := func() (expires int) {
			keys := []string{e.Key("m", "map"), e.Key("m:0", "bits"), e.Key("m:1", "bits"), e.Key("m:5", "bits")}
			for _, k := range keys {
				if left := e.Redis.PTTL(t.Context(), k).Val(); left > 0 && left <= time.Until(at)+time.Second {
					expires++
				}
			}
			return expires
		}
		if n := expiries(); !ok || n != 4 {
			t.Errorf("%d of 4 keys expire", n)
		}
		// The result of Combine keeps its expiry.
		_, err = ms.Set(t.Context(), "other", 3, shard+3, 5*shard+3)
		must(t, err)
		for _, conn := range []redoubt.Conn{e.counter, elsewhere{e.counter}} { // as on one server, and as on a cluster
			_, err = e.mapsOn(conn).Combine(t.Context(), "m", bitmap.Or, "m", "other")
			must(t, err)
			if n := expiries(); n != 4 {
				t.Errorf("%d of 4 keys expire when it was made anew by %T", n, conn)
			}
		}
		ok, err = ms.ExpireAt(t.Context(), "m", time.Time{})
		must(t, err)
		if n := expiries(); !ok || n != 0 {
			t.Errorf("%d of 4 keys expire, want none", n)
		}
		_, err = ms.ExpireAt(t.Context(), "m", time.Now().Add(-time.Second))
		must(t, err)
		n, err := ms.Count(t.Context(), "m")
		must(t, err)
		if n != 0 {
			t.Errorf("%d bits are set in what has expired", n)
		}
	})
}

// Between any two steps of a call that makes shards another process sets when the map expires.
//
// Promise: a map expires as a whole.
func TestMapExpiryIsSetBetween(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		others, at := e.maps(), time.Now().Add(time.Hour)
		must(t, second(others.Set(t.Context(), "source", shard)))
		for what, call := range map[string]func(slow *bitmap.Maps, name string) error{
			"Set": func(slow *bitmap.Maps, name string) error { return second(slow.Set(t.Context(), name, shard)) },
			"Combine": func(slow *bitmap.Maps, name string) error {
				return second(slow.Combine(t.Context(), name, bitmap.Or, name, "source"))
			},
		} {
			for step := range 4 {
				name := fmt.Sprint(what, step)
				must(t, second(others.Set(t.Context(), name, 1)))
				conn := &between{Conn: e.counter, step: step, f: func() { must(t, second(others.ExpireAt(t.Context(), name, at))) }}
				must(t, call(e.mapsOn(conn), name))
				if conn.step >= 0 {
					t.Errorf("%s has no call %d", what, step)
				}
				for _, key := range []string{e.Key(name, "map"), e.Key(name+":0", "bits"), e.Key(name+":1", "bits")} {
					if left := e.Redis.PTTL(t.Context(), key).Val(); left <= 0 {
						t.Errorf("before call %d of %s the expiry is set: %s does not expire: %v", step, what, key, left)
					}
				}
			}
		}
	})
}

// A map is deleted while others set bits in it. All bits that remain are counted.
//
// Promise: every bit that is set is counted, even if the map is deleted meanwhile or the process
// that makes its shard dies.
func TestMapDeletedInUse(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ms := e.maps()
		var done atomic.Bool
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(7, uint64(g)))
				for !done.Load() {
					if _, err := ms.Set(t.Context(), "m", uint64(rng.IntN(8))*shard+uint64(rng.IntN(1000)), uint64(rng.IntN(8))*shard); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for range 50 {
			_, err := ms.Delete(t.Context(), "m")
			must(t, err)
		}
		done.Store(true)
		wg.Wait()
		want := int64(0)
		for n := range 8 {
			want += e.Redis.BitCount(t.Context(), e.Key(fmt.Sprint("m:", n), "bits"), nil).Val()
		}
		n, err := ms.Count(t.Context(), "m")
		must(t, err)
		if n != want {
			t.Errorf("%d bits are counted, and %d are set", n, want)
		}
	})
}

// Between any two steps of a deletion another process sets a bit, and the reverse.
//
// Promise: every bit that is set is counted, even if the map is deleted meanwhile or the process
// that makes its shard dies.
func TestMapDeletedBetween(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		others := e.maps()
		for step := range 5 {
			for what, run := range map[string]func(slow *bitmap.Maps, name string, other func(func())){
				"set between": func(slow *bitmap.Maps, name string, other func(func())) {
					other(func() { must(t, second(others.Set(t.Context(), name, 2))) })
					must(t, second(slow.Delete(t.Context(), name)))
				},
				"deleted between": func(slow *bitmap.Maps, name string, other func(func())) {
					must(t, second(others.Delete(t.Context(), name)))
					other(func() { must(t, second(others.Delete(t.Context(), name))) })
					must(t, second(slow.Set(t.Context(), name, 3)))
				},
				"deleted between, combined": func(slow *bitmap.Maps, name string, other func(func())) {
					must(t, second(others.Set(t.Context(), name+"source", 3)))
					other(func() { must(t, second(others.Delete(t.Context(), name))) })
					must(t, second(slow.Combine(t.Context(), name, bitmap.Or, name+"source")))
				},
			} {
				name := fmt.Sprint(what, step)
				must(t, second(others.Set(t.Context(), name, 1)))
				conn := &between{Conn: e.counter, step: step}
				run(e.mapsOn(conn), name, func(f func()) { conn.f = f })
				want := e.Redis.BitCount(t.Context(), e.Key(name+":0", "bits"), nil).Val()
				n, err := others.Count(t.Context(), name)
				must(t, err)
				if n != want {
					t.Errorf("%s before call %d: %d bits are counted, and %d are set", what, step, n, want)
				}
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// between is a Conn that lets another do something before one of its calls.
type between struct {
	redoubt.Conn
	step int
	f    func()
}

func (b *between) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	return b.Pipeline(ctx, []redoubt.Cmd{cmd})[0]
}

func (b *between) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	if b.step--; b.step == -1 {
		b.f()
	}
	return b.Conn.Pipeline(ctx, cmds)
}

// A process that dies while it makes a shard leaves no unknown shard.
//
// Promise: every bit that is set is counted, even if the map is deleted meanwhile or the process
// that makes its shard dies.
func TestMapMakerDies(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		must(t, second(e.maps().Set(t.Context(), "source", 3, shard)))
		for what, call := range map[string]func(dies *bitmap.Maps, name string) error{
			"Set": func(dies *bitmap.Maps, name string) error { return second(dies.Set(t.Context(), name, 3, shard)) },
			"Combine": func(dies *bitmap.Maps, name string) error {
				return second(dies.Combine(t.Context(), name, bitmap.Or, "source"))
			},
		} {
			for calls := range 4 {
				name := fmt.Sprint(what, calls)
				is(t, call(e.mapsOn(&dying{Conn: e.counter, left: int64(calls)}), name), redoubt.ErrUnknownOutcome)
				ms := e.maps()
				set, err := ms.GetMany(t.Context(), name, []uint64{3, shard})
				must(t, err)
				n, err := ms.Count(t.Context(), name)
				must(t, err)
				if want := int64(0); set[0] || set[1] {
					if want = 2; n != want {
						t.Errorf("after %d calls of %s %d bits count, want %d", calls, what, n, want)
					}
				}
				_, err = ms.Set(t.Context(), name, 3, shard)
				must(t, err)
				if n, err = ms.Count(t.Context(), name); n != 2 || err != nil {
					t.Errorf("%d bits count, %v", n, err)
				}
			}
		}
	})
}

// dying is a Conn whose process dies after some calls.
type dying struct {
	redoubt.Conn
	left int64
}

func (d *dying) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	return d.Pipeline(ctx, []redoubt.Cmd{cmd})[0]
}

func (d *dying) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	if d.left--; d.left >= 0 {
		return d.Conn.Pipeline(ctx, cmds)
	}
	replies := make([]redoubt.Reply, len(cmds))
	for i := range replies {
		replies[i].Err = redoubt.UnknownOutcome(context.DeadlineExceeded)
	}
	return replies
}

// Promise: bad input is refused, and nothing is written.
func TestMapBadInput(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		_, err := bitmap.New(nil, bitmap.Options{})
		says(t, err, "client is nil")
		ms := e.maps()
		_, err = ms.Set(t.Context(), "m", 1, bitmap.MaxOffset+1)
		says(t, err, "offset 9223372036854775808 is out of range; want 0 to 9223372036854775807")
		_, err = ms.GetMany(t.Context(), "m", []uint64{1 << 63})
		says(t, err, "out of range")
		_, err = ms.CountRange(t.Context(), "m", 5, 4)
		says(t, err, "the range from 5 to 4 is empty")
		for _, err := range ms.Range(t.Context(), "m", 0, 1<<63) {
			says(t, err, "out of range")
		}
		_, err = ms.Set(t.Context(), string(make([]byte, bitmap.MaxMapName+1)), 1)
		is(t, err, redoubt.ErrInvalidName)
		_, err = ms.Combine(t.Context(), "x", 9, "a", "")
		says(t, err, "the operation is Operation(9)", "it is empty")
		_, err = ms.Combine(t.Context(), "x", bitmap.And)
		says(t, err, "the call combines 0 maps; want 1 to 256")
		_, err = ms.Combine(t.Context(), "x", bitmap.Xor, "a", "x")
		says(t, err, `"x" is both the result and a source of an Xor`)
		_, err = ms.ExpireAt(t.Context(), "m", time.Unix(-1, 0))
		says(t, err, "the time to expire is")
		if len(e.Keys()) != 0 {
			t.Errorf("there are %d keys", len(e.Keys()))
		}
		must(t, e.Redis.LPush(t.Context(), e.Key("l:0", "bits"), "x").Err())
		_, err = ms.Get(t.Context(), "l", 1)
		says(t, err, "WRONGTYPE")
		_, err = ms.Set(t.Context(), "l", 1)
		says(t, err, "WRONGTYPE")
		must(t, e.Redis.Set(t.Context(), e.Key("s", "map"), "x", 0).Err())
		_, err = ms.Set(t.Context(), "s", 1)
		says(t, err, "WRONGTYPE")
		if len(e.Keys()) != 2 {
			t.Errorf("there are %d keys", len(e.Keys()))
		}
	})
}
