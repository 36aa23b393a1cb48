package queue_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/queue"
)

func benchQueue(b *testing.B) (*queue.Queue[[]byte], *redis.Client) {
	s := redistest.Start(b)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	b.Cleanup(func() { _ = rdb.Close() })
	conn, err := goredis.Wrap(rdb)
	must(b, err)
	client, err := redoubt.New(conn, redoubt.Options{})
	must(b, err)
	b.Cleanup(func() { _ = client.Close() })
	q, err := queue.New[[]byte](client, queue.Options{Codec: queue.Bytes{}})
	must(b, err)
	return q, rdb
}

// commands counts what the server has run, inside scripts too.
func commands(b *testing.B, rdb *redis.Client) (n int) {
	info, err := rdb.Info(b.Context(), "commandstats").Result()
	must(b, err)
	for _, m := range regexp.MustCompile(`cmdstat_(\w+):calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		if m[1] != "info" && m[1] != "config" {
			c, _ := strconv.Atoi(m[2])
			n += c
		}
	}
	return n
}

func BenchmarkPut(b *testing.B) {
	q, rdb := benchQueue(b)
	payload := []byte(strings.Repeat("x", 100))
	b.SetParallelism(32)
	before := commands(b, rdb)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, err := q.Put(b.Context(), "q", payload)
			must(b, err)
		}
	})
	b.ReportMetric(float64(commands(b, rdb)-before)/float64(b.N), "commands/op")
	b.ReportMetric(float64(rdb.MemoryUsage(b.Context(), "rd:{q}:queue", 0).Val()+rdb.MemoryUsage(b.Context(), "rd:{q}:queue:ready", 0).Val())/float64(b.N), "bytes/op")
}

func BenchmarkPutMany(b *testing.B) {
	q, _ := benchQueue(b)
	requests := make([]queue.Request[[]byte], 100)
	for i := range requests {
		requests[i].Value = []byte(strings.Repeat("x", 100))
	}
	for b.Loop() {
		_, err := q.PutMany(b.Context(), "q", requests)
		must(b, err)
	}
}

func BenchmarkConsume(b *testing.B) {
	for _, workers := range []int{1, 64} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			q, rdb := benchQueue(b)
			requests := make([]queue.Request[[]byte], 1000)
			for i := range requests {
				requests[i].Value = []byte(strings.Repeat("x", 100))
			}
			for n := b.N; n > 0; n -= len(requests) {
				_, err := q.PutMany(b.Context(), "q", requests[:min(n, len(requests))])
				must(b, err)
			}
			before := commands(b, rdb)
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			defer cancel()
			var n atomic.Int64
			b.ResetTimer()
			must(b, q.Run(ctx, "q", func(context.Context, *queue.Delivery[[]byte]) error {
				if n.Add(1) == int64(b.N) {
					cancel()
				}
				return nil
			}, queue.RunOptions{Concurrency: workers}))
			b.StopTimer()
			b.ReportMetric(float64(commands(b, rdb)-before)/float64(b.N), "commands/op")
		})
	}
}
