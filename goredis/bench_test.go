package goredis_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// BenchmarkDo runs a script with one key and four arguments that returns three
// integers, one caller, beside go-redis' own EvalSha. A context that can end
// costs a goroutine: what the hand-over takes depends on how many processors the
// server shares with the caller.
func BenchmarkDo(b *testing.B) {
	s := redistest.Start(b)
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	defer rdb.Close()
	c, err := goredis.Wrap(rdb)
	if err != nil {
		b.Fatal(err)
	}
	script := redoubt.NewScript("bench", "return {1, 2000, 3}")
	keys, args := []string{"k"}, []string{"100", "200", "300", "1"}
	cmd := redoubt.Cmd{Script: script, Keys: keys, Args: args}
	background := context.Background()
	own, err := goredis.Open(background, "unix://"+s.Socket())
	if err != nil {
		b.Fatal(err)
	}
	defer own.Close()
	if r := c.Do(background, cmd); r.Err != nil {
		b.Fatal(r.Err)
	}
	b.Run("EvalSha", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := rdb.EvalSha(background, script.Digest(), keys, 100, 200, 300, 1).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("DoCancellable, own client", func(b *testing.B) {
		b.ReportAllocs()
		var reply [3]int64
		for b.Loop() {
			if err := own.Do(b.Context(), cmd).Ints(reply[:]); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, ctx := range map[string]context.Context{"Do": background, "DoCancellable": b.Context()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var reply [3]int64
			for b.Loop() {
				if err := c.Do(ctx, cmd).Ints(reply[:]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkClient runs a script by way of a redoubt.Client, which watches whether the
// server lives.
func BenchmarkClient(b *testing.B) {
	s := redistest.Start(b)
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket()})
	defer rdb.Close()
	wrapped, err := goredis.Wrap(rdb)
	if err != nil {
		b.Fatal(err)
	}
	own, err := goredis.Open(b.Context(), "unix://"+s.Socket())
	if err != nil {
		b.Fatal(err)
	}
	defer own.Close()
	script := redoubt.NewScript("bench", "return {1, 2000, 3}")
	cmd := redoubt.Cmd{Script: script, Keys: []string{"k"}, Args: []string{"100", "200", "300", "1"}}
	for name, conn := range map[string]redoubt.Conn{"Wrap": wrapped, "Open": own} {
		client, err := redoubt.New(conn, redoubt.Options{})
		if err != nil {
			b.Fatal(err)
		}
		for kind, ctx := range map[string]context.Context{"background": context.Background(), "cancellable": b.Context()} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if r := client.Do(ctx, cmd); r.Err != nil {
						b.Fatal(r.Err)
					}
				}
			})
		}
	}
}
