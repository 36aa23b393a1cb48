package server_test

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/server"
)

// BenchmarkAlways compares SETs of many clients that wait for the disk in the
// loop and in a goroutine for each, in turn.
func BenchmarkAlways(b *testing.B) {
	for _, clients := range []int{8, 50, 200} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			e, err := engine.New(engine.Options{Dir: b.TempDir(), Fsync: aof.Always})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = e.Close() })
			url := engineURL(b)
			srv, looped := start(b, url, func(o *server.Options) {
				o.Backend, o.Sessions = e, func(c net.Conn) server.Session { return e.SessionFor(c) }
			})
			plain := alsoPlain(b, srv)
			rate := func(addr string) float64 {
				var stop atomic.Bool
				var sent, n atomic.Int64
				var wg sync.WaitGroup
				began := time.Now()
				for k := range clients {
					conn, err := net.Dial("tcp", addr)
					if err != nil {
						b.Fatal(err)
					}
					wg.Go(func() {
						defer conn.Close()
						set := func(int) []string {
							stop.CompareAndSwap(false, sent.Add(1) >= int64(100*clients))
							return []string{"SET", fmt.Sprint("k", k), "v"}
						}
						n.Add(int64(len(ask(conn, set, 0, &stop))))
					})
				}
				wg.Wait()
				return float64(n.Load()) / time.Since(began).Seconds()
			}
			var ratios, loops, plains []float64
			for b.Loop() {
				l, p := rate(looped), rate(plain)
				ratios, loops, plains = append(ratios, l/p), append(loops, l), append(plains, p)
			}
			median := func(v []float64) float64 {
				slices.Sort(v)
				return v[len(v)/2]
			}
			b.ReportMetric(median(ratios), "loop/goroutines")
			b.ReportMetric(median(loops), "loop/s")
			b.ReportMetric(median(plains), "goroutines/s")
		})
	}
}
