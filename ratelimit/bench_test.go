package ratelimit_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// One caller, one round trip a call.
func BenchmarkAllow(b *testing.B) {
	l := benchLimiter(b, clienttest.New(b, clienttest.Wrap(b, clienttest.Dial(b, redistest.Start(b).Addr())), "rd"))
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if d, err := l.Allow(ctx, "user:42"); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}

// Many callers with a name each, whose calls leave together.
func BenchmarkAllowParallel(b *testing.B) {
	l := benchLimiter(b, clienttest.New(b, clienttest.Wrap(b, clienttest.Dial(b, redistest.Start(b).Addr())), "rd"))
	ctx := b.Context()
	var callers atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		name := "user:" + strconv.FormatInt(callers.Add(1), 10)
		for pb.Next() {
			if d, err := l.Allow(ctx, name); err != nil || !d.Allowed {
				b.Error(d, err)
				return
			}
		}
	})
}

// A decision by tokens that are leased.
func BenchmarkLeased(b *testing.B) {
	h := benchLeased(b)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if d, err := h.Allow(ctx, "user:42"); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}

func BenchmarkLeasedParallel(b *testing.B) {
	h := benchLeased(b)
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if d, err := h.Allow(ctx, "user:42"); err != nil || !d.Allowed {
				b.Error(d, err)
				return
			}
		}
	})
}

// benchLeased never runs out of its tokens.
func benchLeased(b *testing.B) *ratelimit.Leased {
	b.Helper()
	client := clienttest.New(b, answering{redoubt.Reply{Val: []any{int64(1 << 40), int64(1_760_000_000_000_000), int64(0), int64(1000)}}}, "rd")
	h, err := ratelimit.NewLeased(benchLimiter(b, client), ratelimit.LeasedOptions{TTL: time.Hour})
	must(b, err)
	b.Cleanup(func() { _ = h.Close() })
	return h
}

// The cost of the package itself for a call: the rest is the Conn's.
func BenchmarkAllowWithoutServer(b *testing.B) {
	l := benchLimiter(b, clienttest.New(b, answering{redoubt.Reply{Val: []any{int64(1), int64(1_760_000_000_000_000), int64(0), int64(1000)}}}, "rd"))
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Allow(ctx, "user:42"); err != nil {
			b.Fatal(err)
		}
	}
}

// answering is a Conn that gives one reply to everything, and merges commands
// by itself, so that the Client doesn't.
type answering struct{ reply redoubt.Reply }

func (a answering) Do(context.Context, redoubt.Cmd) redoubt.Reply           { return a.reply }
func (a answering) Pipeline(context.Context, []redoubt.Cmd) []redoubt.Reply { return nil }
func (a answering) Pipelines() bool                                         { return true }

func benchLimiter(b *testing.B, client *redoubt.Client) *ratelimit.Limiter {
	b.Helper()
	l, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerSecond(1_000_000)})
	must(b, err)
	return l
}
