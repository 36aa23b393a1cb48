package ratelimit_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	wire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// On a cluster every operation finds its node, by the name in braces, and
// AllowMany asks the nodes of all its names at once: the calls of one name are decided
// in their order.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	opts, err := redis.ParseClusterURL(cluster.URL())
	must(t, err)
	rdb := redis.NewClusterClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	conn := clienttest.Wrap(t, rdb)
	client := clienttest.New(t, conn, "rd")
	ctx := t.Context()
	own, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(4), And: []ratelimit.Limit{{Rate: 100, Period: 24 * time.Hour}}})
	must(t, err)
	stored, err := ratelimit.New(client, ratelimit.Options{Stored: true})
	must(t, err)
	name := func(i int) string { return fmt.Sprint("user:", i) }

	t.Run("AllowMany", func(t *testing.T) {
		var requests []ratelimit.Request
		const names, rounds = 100, 6
		for range rounds {
			for i := range names {
				requests = append(requests, ratelimit.Request{Name: name(i), N: 1})
			}
		}
		requests = append(requests, ratelimit.Request{Name: "", N: 1})
		for again := range 2 {
			// A node that has lost its scripts gets them again.
			cluster.Nodes()[1].CLI("SCRIPT", "FLUSH")
			got := own.AllowMany(ctx, requests)
			if got[len(got)-1].Err == nil {
				t.Error("a bad name has no error")
			}
			left := map[string][]int{}
			taken := 0
			for i, r := range got[:len(got)-1] {
				must(t, r.Err)
				taken += r.Taken
				if n := requests[i].Name; r.Allowed {
					left[n] = append(left[n], r.Remaining)
				}
			}
			for n, left := range left {
				// A call that missed its script runs after the others of its node.
				if slices.Sort(left); !slices.Equal(left, []int{0, 1, 2, 3}) {
					t.Errorf("%s: left %v", n, left)
				}
			}
			if want := 4 * names * (1 - again); taken != want {
				t.Errorf("%d calls were allowed; want %d", taken, want)
			}
		}
	})
	t.Run("every operation", func(t *testing.T) {
		for i := 100; i < 120; i++ {
			for _, l := range []*ratelimit.Limiter{own, stored} {
				n := name(i)
				if l == stored {
					n += "s"
					ok, err := stored.SetIfAbsent(ctx, n, ratelimit.PerHour(4))
					if must(t, err); !ok {
						t.Errorf("%s has limits", n)
					}
				}
				var wg sync.WaitGroup
				for range 3 { // as one, or one by one
					wg.Go(func() {
						if d, err := l.Allow(ctx, n); err != nil || !d.Allowed {
							t.Errorf("%+v, %v", d, err)
						}
					})
				}
				wg.Wait()
				d, err := l.TakeUpTo(ctx, n, 5)
				if must(t, err); d.Taken != 1 {
					t.Errorf("TakeUpTo: %+v", d)
				}
				r, err := l.Reserve(ctx, n, 1)
				must(t, err)
				must(t, r.Cancel(ctx))
				d, err = l.Refund(ctx, n, 2, "x")
				if must(t, err); d.Remaining != 2 {
					t.Errorf("Refund: %s", show(d))
				}
				must(t, l.Wait(ctx, n))
				h := lease(t, l, ratelimit.LeasedOptions{Tokens: 1})
				if d, err = h.Allow(ctx, n); err != nil || !d.Allowed {
					t.Errorf("Leased: %+v, %v", d, err)
				}
				must(t, h.Close())
				must(t, l.Reset(ctx, n))
				if d := peek(t, l, n); d.Remaining != 4 {
					t.Errorf("after Reset: %s", show(d))
				}
			}
		}
	})
	t.Run("the others", func(t *testing.T) {
		e := &env{&testenv.Env{Client: client}}
		window := e.window(t, ratelimit.PerHour(2))
		quota, err := ratelimit.NewQuota(client, ratelimit.QuotaOptions{Allowance: ratelimit.Allowance{Calls: 2, Per: ratelimit.Year}})
		must(t, err)
		calls := e.concurrency(t, ratelimit.ConcurrencyOptions{Limit: 2})
		for i := range 20 {
			var got []string
			for range 3 {
				a, err := window.Allow(ctx, name(i))
				must(t, err)
				b, err := quota.Allow(ctx, name(i))
				must(t, err)
				_, c, err := calls.Begin(ctx, name(i))
				must(t, err)
				got = append(got, fmt.Sprint(a.Taken, b.Taken, c.Taken))
			}
			if fmt.Sprint(got) != "[1 1 1 1 1 1 0 0 0]" {
				t.Errorf("%q", got)
			}
			reset, err := wire.ResetCmd(client, name(i))
			must(t, err)
			must(t, client.Do(ctx, reset).Err)
		}
	})
	for _, n := range cluster.Nodes() {
		if size := strings.TrimSpace(n.CLI("DBSIZE")); size == "0" {
			t.Errorf("%s has no key", n.Addr())
		}
	}
}
