package cache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

func TestGet(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		a, b, s := e.users(), e.users(), newSource("ann")
		gets(t, a, "1", "ann", s.load)
		gets(t, a, "1", "ann", s.load)
		gets(t, b, "1", "ann", never(t))
		s.asked(t, 1)
		s.value.Store("bob")
		must(t, b.Invalidate(t.Context(), "1"))
		gets(t, a, "1", "bob", s.load)
		gets(t, b, "1", "bob", never(t))
		s.asked(t, 2)
		must(t, a.Set(t.Context(), "1", "cid"))
		gets(t, b, "1", "cid", never(t))
		must(t, a.Set(t.Context(), "new", "dan"))
		gets(t, b, "new", "dan", never(t))
		if s := a.Stats(); s.Loads != 2 || s.Hits != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A hit on the server is one round trip.
func TestHitIsOneTrip(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		conn := &clienttest.Counter{Conn: clienttest.Wrap(t, e.connect())}
		c, s := e.usersOn(e.ClientOn(conn)), newSource("ann")
		gets(t, c, "1", "ann", s.load)
		was := conn.Trips.Load()
		for range 5 {
			gets(t, c, "1", "ann", s.load)
		}
		if n := conn.Trips.Load() - was; n != 5 {
			t.Errorf("%d round trips for 5 hits", n)
		}
	})
}

// Promise: the cache remembers that the source does not have a key, separately from all values.
func TestNegativeEntries(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		short := func(o *options) { o.NegativeTTL = 2 * time.Minute; o.NoJitter = true }
		a, s := e.users(short), newSource("")
		gets(t, a, "1", "", s.load)
		gets(t, e.users(), "1", "", never(t))
		s.asked(t, 1)
		if ttl := e.Redis.PTTL(t.Context(), e.key("1")).Val(); ttl > 2*time.Minute || ttl < time.Minute {
			t.Errorf("it lives for %v", ttl)
		}
		// Any value can be told from none, the empty one too.
		must(t, a.Set(t.Context(), "1", ""))
		v, found, err := a.Get(t.Context(), "1", never(t))
		if v != "" || !found || err != nil {
			t.Errorf("got %q, %v, %v", v, found, err)
		}
		none := e.users(func(o *options) { o.NoNegative = true })
		gets(t, none, "2", "", s.load)
		gets(t, none, "2", "", s.load)
		s.asked(t, 3)
	})
}

// A filter keeps keys that don't exist away from the source. When the filter fails, the source is
// asked.
func TestFilter(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		f := filterFunc(func(item string) (bool, error) {
			if item == "broken" {
				return false, errors.New("no filter")
			}
			return item == "there", nil
		})
		c, s := e.users(func(o *options) { o.Filter = f }), newSource("ann")
		gets(t, c, "there", "ann", s.load)
		gets(t, c, "absent", "", never(t))
		gets(t, c, "broken", "ann", s.load)
		s.asked(t, 2)
		if n := e.Redis.Exists(t.Context(), e.key("absent")).Val(); n != 0 {
			t.Error("a key is kept for what the filter refuses")
		}
		if s := c.Stats(); s.Refused != 1 || s.ServerErrors != 1 {
			t.Errorf("%+v", s)
		}
	})
}

type filterFunc func(item string) (bool, error)

func (f filterFunc) MayContain(_ context.Context, item string) (bool, error) { return f(item) }

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	c := newLocalClient(t)
	for want, change := range map[string]func(o *options){
		"name of":         func(o *options) { o.Name = "a:b" },
		"TTL is 0s":       func(o *options) { o.TTL = 0 },
		"TTL is -1s":      func(o *options) { o.TTL = -time.Second },
		"TTL is 999µs":    func(o *options) { o.TTL = 999 * time.Microsecond },
		"NegativeTTL is":  func(o *options) { o.NegativeTTL = time.Microsecond },
		"LocalTTL is -":   func(o *options) { o.LocalTTL = -1 },
		"StaleFor is -":   func(o *options) { o.StaleFor = -1 },
		"Jitter is 0.6":   func(o *options) { o.Jitter = 0.6 },
		"Beta is -1":      func(o *options) { o.Beta = -1 },
		"MaxLoads is -1":  func(o *options) { o.MaxLoads = -1 },
		"Lease is 1ms":    func(o *options) { o.Lease = time.Millisecond },
		"MaxBytes is -1":  func(o *options) { o.MaxBytes = -1 },
		"LoadTimeout is ": func(o *options) { o.LoadTimeout = time.Hour },
	} {
		o := options{Name: "users", TTL: time.Minute}
		change(&o)
		if _, err := cache.New(c, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// The lifetime of a single value has the same bounds.
func TestLifetime(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		ttls := map[string]time.Duration{"long": time.Hour, "none": 0, "negative": -time.Second, "short": time.Microsecond}
		c := e.users(func(o *options) {
			o.Lifetime = func(_, v string) time.Duration { return ttls[v] }
			o.NoJitter = true
		})
		for v, ttl := range ttls {
			s := newSource(v)
			gets(t, c, v, v, s.load)
			gets(t, c, v, v, s.load)
			err := c.Set(t.Context(), v, v)
			left := e.Redis.PTTL(t.Context(), e.key(v)).Val()
			if ttl == time.Hour {
				s.asked(t, 1)
				must(t, err)
				if left < ttl-time.Minute || left > ttl {
					t.Errorf("it lives for %v", left)
				}
				continue
			}
			s.asked(t, 2)
			if err == nil || !strings.Contains(err.Error(), "Lifetime is") || left > 0 {
				t.Errorf("%s: %v, lives for %v", v, err, left)
			}
		}
	})
}

// Promise: entries that are stored together do not expire together.
func TestJitter(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c := e.users(func(o *options) { o.TTL = 1000 * time.Second })
		many := 10_000
		if slow.Race && !full() { // the engine takes its time for scripts then
			many = 2000
		}
		keys := make([]string, many)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		var tenths [12]int
		for part := range slices.Chunk(keys, 500) {
			_, err := c.GetMany(t.Context(), part, func(_ context.Context, keys []string) (map[string]string, error) {
				all := map[string]string{}
				for _, k := range keys {
					all[k] = "v"
				}
				return all, nil
			})
			must(t, err)
			stored := time.Now()
			for i := 0; i < len(part); i += many / 1000 {
				left := e.Redis.PTTL(t.Context(), e.key(part[i])).Val() + time.Since(stored)
				if left > 1001*time.Second || left < 840*time.Second {
					t.Fatalf("one lives for %v: %+v", left, c.Stats())
				}
				tenths[min(max(int(left/time.Second)-890, 0)/10, 11)]++
			}
		}
		spread := 0
		for _, n := range tenths {
			if n > 150 {
				t.Errorf("of a thousand %d expire in the same tenth of the window: %v", n, tenths)
			}
			if n > 50 {
				spread++
			}
		}
		if spread < 9 {
			t.Errorf("they don't spread over the window: %v", tenths)
		}
	})
}

// A process that waits is woken; it does not poll.
//
// Promise: waiters are woken.
func TestWaitersAreWoken(t *testing.T) {
	everywhere(t, func(t *testing.T, e *env) {
		for _, how := range []string{"a value", "an error", "an invalidation", "a set"} {
			t.Run(how, func(t *testing.T) {
				a, b, s := e.users(), e.users(), newSource("own")
				busy, end := make(chan struct{}), make(chan error)
				first := make(chan error, 1)
				go func() {
					_, _, err := a.Get(t.Context(), how, func(context.Context, string) (string, bool, error) {
						close(busy)
						return "ann", true, <-end
					})
					first <- err
				}()
				<-busy
				got := make(chan string, 1)
				go func() {
					v, _, err := b.Get(t.Context(), how, s.load)
					must(t, err)
					got <- v
				}()
				eventually(t, "b waits", func() bool { return e.Redis.StrLen(t.Context(), e.key(how)).Val() > 47 })
				want, asked, failure := "own", int64(1), error(nil)
				switch how {
				case "a value":
					want, asked = "ann", 0
				case "an error":
					failure = errors.New("no")
				case "an invalidation":
					must(t, a.Invalidate(t.Context(), how))
				case "a set":
					must(t, a.Set(t.Context(), how, "set"))
					want, asked = "set", 0
				}
				if failure != nil || want == "ann" {
					end <- failure
				} else {
					defer func() { end <- nil }()
				}
				select {
				case v := <-got:
					if v != want {
						t.Errorf("got %q, want %q", v, want)
					}
				case <-time.After(30 * time.Second): // half of the lease
					t.Error("not woken")
				}
				s.asked(t, asked)
			})
		}
	})
}

// Calls on a closed cache match the error of every package.
func TestCallsAfterClose(t *testing.T) {
	t.Parallel()
	users, err := cache.New(newLocalClient(t), patient)
	must(t, err)
	must(t, users.Set(t.Context(), "a", "x"))
	must(t, users.Close())
	must(t, users.Close())
	_, _, err = users.Get(t.Context(), "a", never(t))
	is(t, err, redoubt.ErrClosed)
	_, err = users.GetMany(t.Context(), []string{"a"}, nil)
	is(t, err, redoubt.ErrClosed)
	is(t, users.Set(t.Context(), "a", "x"), redoubt.ErrClosed)
	is(t, users.Invalidate(t.Context(), "a"), redoubt.ErrClosed)
	is(t, users.InvalidateMany(t.Context(), []string{"a"}), redoubt.ErrClosed)
}
