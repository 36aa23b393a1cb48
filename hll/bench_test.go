package hll_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/hll"
)

// BenchmarkAdd measures a visit without the cost of sending it. bench/ measures that.
func BenchmarkAdd(b *testing.B) {
	for _, pages := range []int{1, 1000} {
		b.Run(fmt.Sprint(pages, "pages"), func(b *testing.B) {
			broken := &lossyConn{}
			broken.broken.Store(losesCommands)
			client, err := redoubt.New(broken, redoubt.Options{})
			must(b, err)
			v, err := hll.New(client, hll.Options{FlushEvery: time.Hour, FlushBytes: 1 << 30, MaxBytes: 1 << 30})
			must(b, err)
			names, visitors := make([]string, pages), make([]string, 100_000)
			for i := range names {
				names[i] = fmt.Sprint("/articles/", i)
			}
			for i := range visitors {
				visitors[i] = fmt.Sprintf("user-%08d", i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := v.Add(names[i*7%pages], visitors[i%len(visitors)]); err != nil {
					b.Fatal(err)
				}
			}
			is(b, v.Close(), redoubt.ErrUnknownOutcome)
			must(b, client.Close())
		})
	}
}
