//go:build !quick

package cache_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// BenchmarkLocalHit measures a hit of the local level beside otter alone, with the expiry that a
// local level needs and without.
func BenchmarkLocalHit(b *testing.B) {
	const keys = 10_000
	type user struct {
		ID   int64
		Name string
	}
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("user", i)
	}
	c, err := cache.New(newLocalClient(b), cache.Options[string, user]{Name: "users", TTL: time.Hour, Local: 2 * keys, LocalTTL: time.Hour})
	must(b, err)
	defer func() { _ = c.Close() }()
	load := func(context.Context, string) (user, bool, error) { return user{1, "ann"}, true, nil }
	eventually(b, "it listens", c.Heard)
	for _, k := range names {
		_, _, err := c.Get(b.Context(), k, load)
		must(b, err)
	}
	plain := otter.Must(&otter.Options[string, user]{MaximumSize: 2 * keys})
	expiring := otter.Must(&otter.Options[string, user]{MaximumSize: 2 * keys, ExpiryCalculator: otter.ExpiryWriting[string, user](time.Hour)})
	for _, k := range names {
		plain.Set(k, user{1, "ann"})
		expiring.Set(k, user{1, "ann"})
	}
	ctx := b.Context()
	for name, get := range map[string]func(k string) bool{
		"redoubt":        func(k string) bool { _, found, _ := c.Get(ctx, k, load); return found },
		"otter":          func(k string) bool { _, found := plain.GetIfPresent(k); return found },
		"otter-expiring": func(k string) bool { _, found := expiring.GetIfPresent(k); return found },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i++; !get(names[i%keys]) {
					b.Fatal("a miss")
				}
			}
		})
	}
}

// BenchmarkRemoteHit measures a hit on the server at 256 callers beside GET alone.
func BenchmarkRemoteHit(b *testing.B) {
	server := redistest.Start(b)
	e := newEnv(b, "p", func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: server.Addr()}) })
	c := e.users(func(o *options) { o.Codec = cache.Text() })
	must(b, c.Set(b.Context(), "1", "ann"))
	rdb := e.connect()
	ctx := b.Context()
	for name, get := range map[string]func() bool{
		"redoubt":  func() bool { _, found, _ := c.Get(ctx, "1", nil); return found },
		"go-redis": func() bool { return rdb.Get(ctx, e.key("1")).Err() == nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(128)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if !get() {
						b.Error("a miss")
						return
					}
				}
			})
		})
	}
}
