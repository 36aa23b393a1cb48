package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/testenv"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// The reader's connection sends its scripts as EVAL_RO: the server refuses each one that writes. Every
// algorithm is read before its first call, after one, and when it refuses.
//
// Promise: Info takes nothing and changes nothing, whatever the algorithm.
func TestInfoChangesNothing(t *testing.T) {
	redistest.Needs(t, 7, 0, "EVAL_RO")
	hourly, daily := ratelimit.Limit{Rate: 2, Period: time.Hour}, ratelimit.Limit{Rate: 3, Period: 24 * time.Hour}
	type limiter interface {
		AllowN(ctx context.Context, name string, n int) (ratelimit.Decision, error)
		Info(ctx context.Context, name string) (ratelimit.Info, error)
	}
	limiterOf := func(opts ratelimit.Options) func(c *redoubt.Client) (limiter, error) {
		return func(c *redoubt.Client) (limiter, error) { return ratelimit.New(c, opts) }
	}
	for name, open := range map[string]func(c *redoubt.Client) (limiter, error){
		"one":    limiterOf(ratelimit.Options{Limit: hourly}),
		"two":    limiterOf(ratelimit.Options{Limit: hourly, And: []ratelimit.Limit{daily}}),
		"stored": limiterOf(ratelimit.Options{Stored: true}),
		"leased": func(c *redoubt.Client) (limiter, error) {
			l, err := ratelimit.New(c, ratelimit.Options{Limit: hourly})
			if err != nil {
				return nil, err
			}
			return ratelimit.NewLeased(l, ratelimit.LeasedOptions{})
		},
		"window": func(c *redoubt.Client) (limiter, error) {
			return ratelimit.NewWindow(c, ratelimit.WindowOptions{Limit: hourly, And: []ratelimit.Limit{daily}})
		},
		"quota": func(c *redoubt.Client) (limiter, error) {
			return ratelimit.NewQuota(c, ratelimit.QuotaOptions{Allowance: ratelimit.Allowance{Calls: 2, Per: ratelimit.Year}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.EachServer(t, func(t *testing.T, e *testenv.Env) {
				client := e.ClientOn(clienttest.ReadOnly(e.Conn))
				reader, err := open(client)
				must(t, err)
				writer, err := open(e.Client)
				must(t, err)
				for _, l := range []limiter{reader, writer} {
					if c, ok := l.(*ratelimit.Leased); ok {
						defer func() { must(t, c.Close()) }()
					}
				}
				if l, ok := writer.(*ratelimit.Limiter); ok && name == "stored" {
					must(t, l.Set(t.Context(), "x", hourly))
				}
				for _, left := range []int{2, 1, 0} {
					for range 2 {
						info, err := reader.Info(t.Context(), "x")
						must(t, err)
						if info.Allowed != (left > 0) || info.Remaining != left {
							t.Errorf("%+v, want %d left", info, left)
						}
					}
					d, err := writer.AllowN(t.Context(), "x", 1)
					must(t, err)
					if d.Allowed != (left > 0) {
						t.Errorf("%+v with %d left", d, left)
					}
				}
				if _, err := reader.AllowN(t.Context(), "y", 1); name != "stored" && err == nil {
					t.Error("the reader can write")
				}
			})
		})
	}
}

// A string that the scripts did not write is a key of the wrong type for all of them.
func TestStringOfAnotherForm(t *testing.T) {
	testenv.EachServer(t, func(t *testing.T, te *testenv.Env) {
		e := &env{te}
		limit := ratelimit.Limit{Rate: 2, Period: time.Hour}
		l := e.limiter(t, limit)
		w, err := ratelimit.NewWindow(e.Client, ratelimit.WindowOptions{Limit: limit})
		must(t, err)
		q, err := ratelimit.NewQuota(e.Client, ratelimit.QuotaOptions{Allowance: ratelimit.Allowance{Calls: 2, Per: ratelimit.Day}})
		must(t, err)
		for _, allow := range []func(context.Context, string) (ratelimit.Decision, error){l.Allow, w.Allow, q.Allow} {
			_, err := allow(t.Context(), "x")
			must(t, err)
		}
		for _, key := range e.Keys() {
			must(t, e.Redis.Set(t.Context(), key, "some text", 0).Err())
		}
		for _, allow := range []func(context.Context, string) (ratelimit.Decision, error){l.Allow, w.Allow, q.Allow} {
			_, err := allow(t.Context(), "x")
			expect.Is(t, err, redoubt.ErrWrongType)
		}
	})
}
