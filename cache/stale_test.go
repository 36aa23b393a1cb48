package cache_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/cache"
)

// A stale value is served at once while one caller loads, for the chosen time.
//
// Promise: a stale value is served no longer than the options allow.
func TestStaleFor(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c, s := e.timed(func(o *options) { o.TTL, o.StaleFor, o.NoJitter = time.Hour, time.Hour, true }), newSource("old")
		c.at(0)
		gets(t, c.Cache, "1", "old", s.load)
		if left := e.Redis.PTTL(t.Context(), e.key("1")).Val(); left < 119*time.Minute || left > 2*time.Hour {
			t.Errorf("it lives for %v", left)
		}
		s.value.Store("new")
		busy, end := make(chan struct{}), make(chan struct{})
		slow := func(ctx context.Context, key string) (string, bool, error) {
			close(busy)
			<-end
			return s.load(ctx, key)
		}
		c.at(90 * time.Minute)
		gets(t, c.Cache, "1", "old", slow)
		<-busy
		for range 3 { // one is enough
			gets(t, c.Cache, "1", "old", never(t))
		}
		close(end)
		eventually(t, "it is loaded anew", func() bool {
			v, _, err := c.Get(t.Context(), "1", s.load)
			must(t, err)
			return v == "new"
		})
		if n := c.Stats().Stale; n < 4 {
			t.Errorf("%d were stale", n)
		}
		// Beyond that time it is not served.
		s.value.Store("newer")
		eventually(t, "the refreshing is over", c.Idle)
		c.at(4 * time.Hour)
		gets(t, c.Cache, "1", "newer", s.load)
	})
}

// A refresh that fails does not change the entry: it is served until its time.
func TestFailedRefresh(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c, s := e.timed(func(o *options) { o.TTL, o.StaleFor, o.NoJitter = time.Hour, time.Hour, true }), newSource("old")
		c.at(0)
		gets(t, c.Cache, "1", "old", s.load)
		s.fail(errors.New("down"))
		c.at(90 * time.Minute)
		gets(t, c.Cache, "1", "old", s.load)
		eventually(t, "the refreshing is over", c.Idle)
		s.asked(t, 2)
		if left := e.Redis.PTTL(t.Context(), e.key("1")).Val(); left < 119*time.Minute || left > 2*time.Hour {
			t.Errorf("it lives for %v", left)
		}
		gets(t, c.Cache, "1", "old", s.load)
	})
}

// Stale values stand in for a failing source for the chosen time.
//
// Promise: a stale value is served no longer than the options allow.
func TestStaleIfError(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c, s := e.timed(func(o *options) { o.StaleIfError, o.NoBreaker = time.Hour, true }), newSource("old")
		c.at(0)
		gets(t, c.Cache, "1", "old", s.load)
		c.at(90 * time.Minute)
		down := errors.New("down")
		s.fail(down)
		gets(t, c.Cache, "1", "old", s.load)
		s.asked(t, 2)
		c.at(3 * time.Hour)
		_, _, err := c.Get(t.Context(), "1", s.load)
		is(t, err, down)
		s.fail(nil)
		s.value.Store("new")
		gets(t, c.Cache, "1", "new", s.load)

		none := e.timed(func(o *options) { o.Name, o.StaleFor, o.StaleIfError = "others", time.Minute, cache.NoStale })
		none.at(0)
		gets(t, none.Cache, "1", "new", s.load)
		none.at(2 * time.Hour)
		s.fail(down)
		_, _, err = none.Get(t.Context(), "1", s.load)
		is(t, err, down)
	})
}

// A value is loaded again before it expires, the earlier the longer its load took.
func TestEarlyRefresh(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c, s := e.timed(func(o *options) { o.TTL, o.Beta, o.NoJitter = 1000*time.Hour, 1000, true }), newSource("old")
		none := e.timed(func(o *options) { o.Name, o.NoEarlyRefresh, o.NoJitter = "others", true, true })
		slow := func(ctx context.Context, key string) (string, bool, error) {
			<-time.After(20 * time.Millisecond) // so long that a thousand times it is 20 seconds
			return s.load(ctx, key)
		}
		for _, c := range []timed{c, none} {
			c.at(0)
			gets(t, c.Cache, "1", "old", slow)
		}
		for range 20 {
			gets(t, c.Cache, "1", "old", never(t))
		}
		s.value.Store("new")
		c.at(1000*time.Hour - 10*time.Second) // it is fresh for a while yet
		eventually(t, "it is loaded anew", func() bool {
			v, _, err := c.Get(t.Context(), "1", s.load)
			must(t, err)
			return v == "new"
		})
		none.at(time.Hour - time.Minute)
		for range 100 {
			gets(t, none.Cache, "1", "old", never(t))
		}
	})
}

func TestSizeLimit(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		c, s := e.users(func(o *options) { o.MaxBytes, o.Codec = 100, cache.Text() }), newSource(strings.Repeat("x", 101))
		gets(t, c, "1", strings.Repeat("x", 101), s.load)
		if n := e.Redis.Exists(t.Context(), e.key("1")).Val(); n != 0 {
			t.Error("it is stored, or the lease is left")
		}
		if n := c.Stats().Drops; n != 1 {
			t.Errorf("%d drops", n)
		}
		is(t, c.Set(t.Context(), "1", strings.Repeat("x", 101)), cache.ErrTooLarge)
		must(t, c.Set(t.Context(), "1", strings.Repeat("x", 100)))
		gets(t, c, "1", strings.Repeat("x", 100), never(t))
	})
}

// Payloads above a size are compressed where that makes them shorter. Caches that don't compress
// read them, and decompression is bounded.
func TestCompression(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		text := func(o *options) { o.Codec = cache.Text() }
		c := e.users(text, func(o *options) { o.Compress = 100 })
		long := strings.Repeat("a long text ", 100)
		for _, v := range []string{long, long[:99], "kq8Zv0Lr"} {
			must(t, c.Set(t.Context(), "1", v))
			gets(t, e.users(text), "1", v, never(t))
			if n := e.Redis.StrLen(t.Context(), e.key("1")).Val(); v == long && n > 200 {
				t.Errorf("it takes %d bytes", n)
			}
		}
		must(t, c.Set(t.Context(), "1", long))
		narrow := e.users(text, func(o *options) { o.MaxBytes = len(long) - 1 })
		gets(t, narrow, "1", "short", newSource("short").load)
	})
}

// An entry that can't be read is loaded again and leaves no lease.
func TestUnreadableEntries(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		strange := e.users(func(o *options) { o.Codec = cache.Text() })
		c, s := e.users(), newSource("ann")
		must(t, strange.Set(t.Context(), "1", "{no json"))
		gets(t, c, "1", "ann", s.load)
		gets(t, c, "1", "ann", never(t))
		for i, raw := range []string{"x", strings.Repeat("x", 60), "\x02v." + strings.Repeat("\x00", 60), "\x01v." + strings.Repeat("\xff", 60)} {
			must(t, e.Redis.Set(t.Context(), e.key("1"), raw, time.Hour).Err())
			gets(t, c, "1", "ann", s.load)
			s.asked(t, int64(i)+2)
		}
	})
}
