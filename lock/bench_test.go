package lock_test

import (
	"context"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/lock"
)

// prompt is a server that grants every lock at once.
type prompt struct{}

func (prompt) Do(_ context.Context, c redoubt.Cmd) redoubt.Reply {
	if c.Script.Name() == "lock.release" {
		return redoubt.Reply{Val: []any{int64(1)}}
	}
	return redoubt.Reply{Val: []any{int64(1), int64(1732147200123456), int64(30_000_000), ""}}
}

func (p prompt) Pipeline(ctx context.Context, cs []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cs))
	for i, c := range cs {
		replies[i] = p.Do(ctx, c)
	}
	return replies
}

// BenchmarkPair is what a lock and its release take here, without a server.
func BenchmarkPair(b *testing.B) {
	client, err := redoubt.New(prompt{}, redoubt.Options{})
	if err != nil {
		b.Fatal(err)
	}
	locks, err := lock.New(client, lock.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		lease, _, err := locks.TryAcquire(b.Context(), "orders:42")
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
