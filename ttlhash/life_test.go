package ttlhash_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// When everybody is dead the last field's end is that of all keys: after fields were
// extended, shortened, deleted, with events and without.
//
// Promise: When no process runs any more, all fields are gone after the last deadline, with
// events a minute later, and the events an hour later.
func TestNothingIsLeft(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		for name, opts := range map[string]ttlhash.Options{"plain": {}, "events": {Events: true}} {
			h := e.with(opts)
			var items []ttlhash.Item
			for i := range 100 {
				items = append(items, ttlhash.Item{Field: fmt.Sprint(i), Value: "v", TTL: time.Duration(1+i) * 3 * time.Millisecond})
			}
			must(t, h.SetMany(ctx, name, items))
			for i := range 20 {
				_, err := h.Expire(ctx, name, fmt.Sprint(80+i), 500*time.Millisecond, ttlhash.Always)
				must(t, err)
			}
			_, err := h.Expire(ctx, name, "85", 50*time.Millisecond, ttlhash.Always)
			must(t, err)
			_, err = h.Remove(ctx, name, "86")
			must(t, err)
		}
		left := func(name string) string { return strings.Join(e.left(name), " ") }
		await.Until(t, time.Minute, "nothing is left of a hash", func() bool { return left("plain") == "" })
		// Events wait for a sweeper; they expire too.
		for _, part := range []string{"ttlhash", "ttlindex", "ttlevents"} {
			key := e.Key("events", part)
			if n := e.Redis.Exists(ctx, key).Val(); n == 1 && part != "ttlhash" || n == 1 && !e.native {
				if ttl := e.Redis.PTTL(ctx, key).Val(); ttl <= 0 || ttl > 2*ttlhash.EventGrace && part != "ttlevents" || ttl > ttlhash.EventTTL {
					t.Errorf("%s is left for %v", part, ttl)
				}
			}
		}
		if e.native {
			longest := time.Duration(0)
			for _, f := range e.Redis.HKeys(ctx, e.Key("events", "ttlhash")).Val() {
				ms, err := e.Redis.HPTTL(ctx, e.Key("events", "ttlhash"), f).Result()
				must(t, err)
				if longest = max(longest, time.Duration(ms[0])*time.Millisecond); ms[0] < 0 {
					t.Errorf("%s is left for ever", f)
				}
			}
			if longest > ttlhash.EventGrace+time.Second {
				t.Errorf("a field is left for %v", longest)
			}
		}
	})
}

// A field without a deadline keeps the hash; fields with one still go, with the next
// writes.
func TestForEver(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.set("h", "goes", "v", 20*time.Millisecond)
		e.set("h", "stays", "v", ttlhash.Never)
		if ttl := e.Redis.PTTL(ctx, e.Key("h", "ttlhash")).Val(); ttl != -1 {
			t.Errorf("the hash has a ttl of %v", ttl)
		}
		await.Until(t, time.Minute, "a write sweeps", func() bool {
			e.set("h", "other", "v", time.Minute)
			return e.Redis.HLen(ctx, e.Key("h", "ttlhash")).Val() == 2
		})
		e.expect("stays", "v")
	})
}

// Each write sweeps: at least two fields that are over, if there are so many.
//
// Promise: Each write sweeps at most two chunks of the index.
func TestWritesSweep(t *testing.T) {
	emulating(t, func(t *testing.T, e *env) {
		c := e.freeze()
		ctx := t.Context()
		for i := range 500 {
			e.set("h", fmt.Sprint(i), "v", time.Duration(1+i*7919%500_000)*time.Millisecond)
		}
		e.set("h", "keeps", "v", 100*time.Hour)
		c.Advance(time.Hour)
		for n, last := 0, int64(501); n < 250; n++ {
			if n%2 == 0 {
				e.set("h", "one", "v", time.Hour)
			} else {
				_, err := e.hashes.Remove(ctx, "h", "one")
				must(t, err)
			}
			now := e.Redis.HLen(ctx, e.Key("h", "ttlhash")).Val()
			if gone := last - now; now > 2 && (gone < 1 || gone > 33) {
				t.Fatalf("write %d: %d fields after %d", n, now, last)
			}
			last = now
		}
		if n := e.Redis.HLen(ctx, e.Key("h", "ttlhash")).Val(); n > 2 {
			t.Errorf("%d fields are left", n)
		}
	})
}

// The index does not grow when fields are set again. Fields that are deleted, or whose TTL
// is shortened, let it grow to a bound only.
//
// Promise: The index has at most 64 chunks more than the hash has fields.
func TestIndexIsInProportion(t *testing.T) {
	emulating(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		chunks := func() int64 { return e.Redis.ZCard(ctx, e.Key("h", "ttlindex")).Val() }
		c := e.freeze()
		h := e.hashes
		for i := range 160 {
			e.set("h", fmt.Sprint("e", i), "v", time.Hour)
		}
		if n := chunks(); n != 10 {
			t.Errorf("%d chunks for 160 fields that are set one by one, want 10", n)
		}
		_, err := h.Delete(ctx, "h")
		must(t, err)
		for i := range 500 {
			e.set("h", fmt.Sprint("f", i%10), "v", time.Hour)
			c.Advance(time.Second)
		}
		if n := chunks(); n > 20 {
			t.Errorf("%d chunks for 10 fields that are set again and again", n)
		}
		_, err = h.Delete(ctx, "h")
		must(t, err)
		most := int64(0)
		for i := range 700 {
			e.set("h", fmt.Sprint("g", i%3), "v", time.Duration(10+i%50)*time.Hour)
			if i%2 == 0 {
				_, err := h.Remove(ctx, "h", fmt.Sprint("g", i%3))
				must(t, err)
			}
			e.set("h", "stays", "v", 100*time.Hour)
			c.Advance(time.Minute)
			most = max(most, chunks())
		}
		if most > 70 || most < 20 {
			t.Errorf("up to %d chunks for four fields", most)
		}
		e.expect("stays", "v")
	})
}

// A field is in the index once after it was found where it had been before, and the index
// goes with the hash: when a sweep deletes the last field, and when the server took the
// hash alone.
//
// Promise: The index has at most 64 chunks more than the hash has fields.
func TestIndexHasWhatTheHashHas(t *testing.T) {
	emulating(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		c := e.freeze()
		index := func() (names int) {
			for _, chunk := range e.Redis.ZRange(ctx, e.Key("h", "ttlindex"), 0, -1).Val() {
				names += int(chunk[0])
			}
			return names
		}
		e.set("h", "f", "v", 10*time.Hour)
		e.set("h", "f", "v", time.Hour)    // sooner: filed a second time
		e.set("h", "f", "v", 20*time.Hour) // later: filed where it is
		for range 2 {
			c.Advance(8 * time.Hour)
			_, err := e.hashes.Sweep(ctx, "h")
			must(t, err)
		}
		if n := index(); n != 1 {
			t.Errorf("a field is in the index %d times", n)
		}

		e.set("h", "f", "v", 20*time.Hour)
		e.set("h", "f", "v", time.Second)
		c.Advance(time.Minute)
		n, err := e.hashes.Sweep(ctx, "h")
		must(t, err)
		if left := e.left("h"); n != 1 || left != nil {
			t.Errorf("%d swept, %v left", n, left)
		}

		e.set("h", "f", "v", time.Hour)
		e.set("h", "g", "v", 2*time.Hour)
		must(t, e.Redis.Del(ctx, e.Key("h", "ttlhash")).Err())
		e.set("h", "f", "v", 3*time.Hour)
		if n := index(); n != 1 {
			t.Errorf("the index has %d fields, the hash one", n)
		}
	})
}

// A million fields of 100 bytes take less than a million strings with PX: natively and
// emulated. By default with fewer; TTLHASH=full takes a million.
//
// Promise: A million fields of 100 bytes take less memory than as many strings with PX.
func TestBytes(t *testing.T) {
	n := 100_000
	if os.Getenv("TTLHASH") == "full" {
		n = 1_000_000
	}
	server := redistest.Start(t)
	e := newEnv(testenv.New(t, redistest.Backend{Addr: server.Addr(), Prefix: "t"}))
	ctx := t.Context()
	used := func() int {
		t.Helper()
		info := e.Redis.Info(ctx, "memory").Val()
		_, info, _ = strings.Cut(info, "used_memory:")
		info, _, _ = strings.Cut(info, "\r\n")
		b, err := strconv.Atoi(info)
		must(t, err)
		return b
	}
	value := strings.Repeat("x", 100)
	measure := func(fill func(from, to int)) float64 {
		must(t, e.Redis.FlushAll(ctx).Err())
		before := used()
		for from := 0; from < n; from += 1000 {
			fill(from, from+1000)
		}
		return float64(used()-before) / float64(n)
	}
	name := func(i int) string { return fmt.Sprintf("user:%08d", i) }
	ttl := func(i int) time.Duration { return time.Hour + time.Duration(i%1_000_000)*time.Millisecond }
	texts := measure(func(from, to int) {
		pipe := e.Redis.Pipeline()
		for i := from; i < to; i++ {
			pipe.Set(ctx, name(i), value, ttl(i))
		}
		_, err := pipe.Exec(ctx)
		must(t, err)
	})
	fill := func(h *ttlhash.Hashes) func(from, to int) {
		return func(from, to int) {
			items := make([]ttlhash.Item, 0, 1000)
			for i := from; i < to; i++ {
				items = append(items, ttlhash.Item{Field: name(i), Value: value, TTL: ttl(i)})
			}
			must(t, h.SetMany(ctx, "h", items))
		}
	}
	emulated := measure(fill(e.with(ttlhash.Options{Emulate: true})))
	t.Logf("%d of 100 bytes: strings with PX %.1f bytes each, emulated fields %.1f", n, texts, emulated)
	if emulated >= texts {
		t.Errorf("emulated fields take %.1f bytes, strings %.1f", emulated, texts)
	}
	if e.native {
		native := measure(fill(e.hashes))
		t.Logf("native fields %.1f", native)
		if native >= texts {
			t.Errorf("native fields take %.1f bytes, strings %.1f", native, texts)
		}
	}
}
