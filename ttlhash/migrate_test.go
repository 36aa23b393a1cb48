package ttlhash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// A limited Conn lets so many calls pass, and then none.
type limited struct {
	redoubt.Conn
	left atomic.Int64
}

func (c *limited) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if c.left.Add(-1) < 0 {
		return redoubt.Reply{Err: errDead}
	}
	return c.Conn.Do(ctx, cmd)
}

var errDead = errors.New("the process is dead")

// An emulated hash becomes a native one while it is read and written by processes that
// know of the change and by some that don't, after migrations that died half-way.
//
// Promise: A migration may be interrupted and repeated while the hash is in use, and loses and
// changes nothing.
func TestMigrate(t *testing.T) {
	onNative(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		old, eventful := e.with(ttlhash.Options{Emulate: true}), e.with(ttlhash.Options{Emulate: true, Events: true})
		var items []ttlhash.Item
		for i := range 5000 {
			items = append(items, ttlhash.Item{Field: fmt.Sprint("f", i), Value: fmt.Sprint("v", i), TTL: time.Hour + time.Duration(i)*time.Second})
		}
		must(t, old.SetMany(ctx, "h", items))
		must(t, old.Set(ctx, "h", "over", "v", time.Millisecond))
		must(t, eventful.Set(ctx, "h", "eventful", "v", time.Hour))
		_, err := old.Migrate(ctx, "h")
		is(t, err, ttlhash.ErrNotNative)

		stop := make(chan struct{})
		var wg sync.WaitGroup
		for n, h := range []*ttlhash.Hashes{old, e.hashes} {
			r := randtest.Rand(t)
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					f := r.IntN(5000)
					if v, ok, err := h.Get(ctx, "h", fmt.Sprint("f", f)); err != nil || !ok || v != fmt.Sprint("v", f) {
						t.Errorf("f%d is %q %v: %v", f, v, ok, err)
						return
					}
					own := fmt.Sprint("own", n, "-", i%50)
					if err := h.Set(ctx, "h", own, fmt.Sprint(i), 2*time.Hour); err != nil {
						t.Error(err)
						return
					}
					if v, ok, err := h.Get(ctx, "h", own); err != nil || !ok || v != fmt.Sprint(i) {
						t.Errorf("%s is %q %v, want %d: %v", own, v, ok, i, err)
						return
					}
				}
			})
		}
		for range 3 {
			dying := &limited{Conn: e.Conn}
			dying.left.Store(4)
			_, h := e.on(dying, ttlhash.Options{})
			_, err := h.Migrate(ctx, "h")
			is(t, err, errDead)
		}
		moved, err := e.hashes.Migrate(ctx, "h")
		must(t, err)
		if moved < 1000 || moved > 5200 {
			t.Errorf("%d moved by the last", moved)
		}
		close(stop)
		wg.Wait()
		_, err = e.hashes.Migrate(ctx, "h")
		must(t, err)
		// The event's field is alone in the index now.
		if chunks := e.Redis.ZRange(ctx, e.Key("h", "ttlindex"), 0, -1).Val(); len(chunks) != 1 || !strings.HasSuffix(chunks[0], "eventful") {
			t.Errorf("the index has %q", chunks)
		}
		for _, i := range items {
			at, err := e.Redis.HPTTL(ctx, e.Key("h", "ttlhash"), i.Field).Result()
			must(t, err)
			ttl := time.Duration(at[0]) * time.Millisecond
			if ttl > i.TTL || ttl < i.TTL-30*time.Minute {
				t.Fatalf("%s is left to the server for %v, want %v", i.Field, ttl, i.TTL)
			}
		}
		got, err := e.hashes.GetMany(ctx, "h", []string{items[0].Field, items[4999].Field, "over", "eventful"})
		must(t, err)
		if got["f0"].Value != "v0" || got["f4999"].Value != "v4999" || len(got) != 3 {
			t.Errorf("%v", got)
		}
	})
}

// A migration finds what is behind many events that stay, and what is set meanwhile and
// is due sooner than where it is.
//
// Promise: A migration may be interrupted and repeated while the hash is in use, and loses and
// changes nothing.
func TestMigrateLooksAgain(t *testing.T) {
	onNative(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		old := e.with(ttlhash.Options{Emulate: true})
		eventful := e.with(ttlhash.Options{Emulate: true, Events: true})
		for i := range 100 { // more chunks, which stay, than one round trip looks at
			must(t, eventful.Set(ctx, "h", fmt.Sprint("eventful", i), "v", time.Hour+time.Duration(i)*time.Second))
		}
		var items []ttlhash.Item
		for i := range 2000 {
			items = append(items, ttlhash.Item{Field: fmt.Sprint(i), TTL: 2 * time.Hour})
		}
		must(t, old.SetMany(ctx, "h", items))
		_, h := e.on(&meanwhile{Conn: e.Conn, script: "ttlhash.migrate", do: func() {
			must(t, old.Set(ctx, "h", "sooner", "v", 30*time.Minute))
		}}, ttlhash.Options{})
		moved, err := h.Migrate(ctx, "h")
		must(t, err)
		if moved != 2001 {
			t.Errorf("%d moved, want 2001", moved)
		}
	})
}

// A hash that was emulated expires as a whole. When the server takes a field over,
// the field lives as long as the hash.
func TestNativeFieldProlongsAnEmulatedHash(t *testing.T) {
	onNative(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		must(t, e.with(ttlhash.Options{Emulate: true}).Set(ctx, "h", "a", "v", time.Hour))
		e.set("h", "b", "v", 3*time.Hour)
		if ttl := e.Redis.PTTL(ctx, e.Key("h", "ttlhash")).Val(); ttl < 2*time.Hour {
			t.Errorf("the hash is over in %v, a field in 3h", ttl)
		}
	})
}

// A meanwhile does something once, after a script ran.
type meanwhile struct {
	redoubt.Conn
	script string
	do     func()
}

func (c *meanwhile) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	r := c.Conn.Do(ctx, cmd)
	if do := c.do; do != nil && cmd.Script != nil && cmd.Script.Name() == c.script {
		c.do = nil
		do()
	}
	return r
}

// Fields of both kinds live in one hash, written by processes of both kinds: no field is
// lost when the deadlines of others are over, and none of the keys is left.
//
// Promise: A migration may be interrupted and repeated while the hash is in use, and loses and
// changes nothing.
func TestMixed(t *testing.T) {
	onNative(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		all := []*ttlhash.Hashes{
			e.hashes, e.with(ttlhash.Options{Events: true}), e.with(ttlhash.Options{Emulate: true}), e.with(ttlhash.Options{Emulate: true, Events: true}),
		}
		for round := range 5 {
			name := fmt.Sprint("h", round)
			r := rand.New(rand.NewPCG(uint64(round), 1))
			until, value := map[string]time.Time{}, map[string]string{}
			for i := range 60 {
				f, ttl := fmt.Sprint(r.IntN(20)), time.Duration(1+r.IntN(300))*time.Millisecond
				if r.IntN(4) == 0 {
					ttl = time.Minute
				}
				must(t, all[r.IntN(4)].Set(ctx, name, f, fmt.Sprint(i), ttl))
				until[f], value[f] = e.now().Add(ttl), fmt.Sprint(i)
				if r.IntN(5) == 0 {
					_, err := all[r.IntN(4)].Sweep(ctx, name)
					must(t, err)
				}
			}
			await.Until(t, time.Minute, "the short ones are over", func() bool {
				got, err := all[r.IntN(4)].GetMany(ctx, name, fields(20))
				must(t, err)
				now := e.now()
				n := 0
				for f, end := range until {
					if end.Sub(now) > 10*time.Second {
						if n++; got[f].Value != value[f] {
							t.Fatalf("%s is %q, want %q for another %v", f, got[f].Value, value[f], end.Sub(now))
						}
					}
				}
				return n == len(got)
			})
			for f := range until {
				must(t, all[r.IntN(4)].Set(ctx, name, f, "v", 100*time.Millisecond))
			}
		}
		await.Until(t, time.Minute, "all is over", func() bool {
			for round := range 5 {
				n, err := e.hashes.Len(ctx, fmt.Sprint("h", round))
				must(t, err)
				if n > 0 {
					return false
				}
			}
			return true
		})
		for round := range 5 {
			for _, part := range e.left(fmt.Sprint("h", round)) {
				if ttl := e.Redis.PTTL(ctx, e.Key(fmt.Sprint("h", round), part)).Val(); ttl < 0 {
					t.Errorf("%s is left for ever", part)
				}
			}
		}
	})
}

func fields(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

// When a server that is older takes over, what was native is emulated again.
func TestOlderServerTakesOver(t *testing.T) {
	onNative(t, func(t *testing.T, e *env) {
		older := &oldServer{Conn: e.Conn}
		_, h := e.on(older, ttlhash.Options{})
		ctx := t.Context()
		must(t, h.Set(ctx, "h", "a", "1", time.Hour))
		older.is.Store(true)
		must(t, h.Set(ctx, "h", "b", "2", time.Hour))
		must(t, h.Set(ctx, "h", "c", "3", time.Hour))
		e.expect("a", "1", "b", "2", "c", "3")
		if n := e.Redis.ZCard(ctx, e.Key("h", "ttlindex")).Val(); n == 0 {
			t.Error("the fields are not in the index")
		}
	})
}

// An oldServer does not know the commands of field expiry, from some moment on.
type oldServer struct {
	redoubt.Conn
	is atomic.Bool
}

func (c *oldServer) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if c.is.Load() && (cmd.Name == "HPEXPIRETIME" || cmd.Script != nil && cmd.Args[0] == "1") {
		return redoubt.Reply{Err: redoubt.ServerError("ERR Unknown Redis command called from script script: 1234, on @user_script:12.")}
	}
	return c.Conn.Do(ctx, cmd)
}
