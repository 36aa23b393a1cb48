package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/hll"
)

// benchHLL measures visits that are counted: gathered in the process and sent ten times a
// second, what that costs the server included, against PFADD as people send it, one by one,
// in pipelines, and a hundred visitors of one page in one command. Views are counted too, by
// INCR where the peers count them.
func benchHLL(ctx context.Context, cfg config) error {
	server, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	p, err := newPeers(ctx, server.addr)
	if err != nil {
		return err
	}
	defer p.close()
	visitors := make([]string, 1_000_000)
	for i := range visitors {
		visitors[i] = fmt.Sprintf("user-%08d", i)
	}
	for _, pages := range []int{1, 1000} {
		v, err := hll.New(p.ours, hll.Options{FlushEvery: 100 * time.Millisecond})
		if err != nil {
			return err
		}
		names, keys, views := make([]string, pages), make([]string, pages), make([]string, pages)
		for i := range names {
			names[i] = fmt.Sprintf("/articles/%d/%d", pages, i)
			keys[i], views[i] = "visitors:"+names[i], "views:"+names[i]
		}
		visit := func() (page int, visitor string) { return rand.IntN(pages), visitors[rand.IntN(len(visitors))] }
		ours := func(n int) func(context.Context, int) error {
			return func(context.Context, int) error {
				for range n {
					page, visitor := visit()
					if err := v.Add(names[page], visitor); err != nil {
						return err
					}
				}
				return nil
			}
		}
		add := func(ctx context.Context, c redis.Cmdable) error {
			page, visitor := visit()
			return c.PFAdd(ctx, keys[page], visitor).Err()
		}
		pipelined := func(n int, counted bool) func(context.Context, int) error {
			return func(ctx context.Context, _ int) error {
				_, err := p.plain.Pipelined(ctx, func(pipe redis.Pipeliner) error {
					for range n {
						page, visitor := visit()
						pipe.PFAdd(ctx, keys[page], visitor)
						if counted {
							pipe.Incr(ctx, views[page])
						}
					}
					return nil
				})
				return err
			}
		}
		together := func(n int) func(context.Context, int) error {
			return func(ctx context.Context, _ int) error {
				page, _ := visit()
				some := make([]any, n)
				for i := range some {
					_, some[i] = visit()
				}
				return p.plain.PFAdd(ctx, keys[page], some...).Err()
			}
		}
		for _, callers := range []int{1, 16} {
			for _, n := range []int{1, 100} {
				cs := []contender{{name: "redoubt/hll, Add", op: ours(n), stride: 100 / n}}
				if n == 1 {
					cs = append(cs,
						contender{name: "PFADD", op: func(ctx context.Context, _ int) error { return add(ctx, p.plain) }},
						contender{name: "PFADD, AutoPipeline", op: func(ctx context.Context, _ int) error { return add(ctx, p.auto) }},
						contender{name: "PFADD and INCR, a pipeline", op: pipelined(1, true)})
				} else {
					cs = append(cs,
						contender{name: "PFADD, a pipeline", op: pipelined(n, false)},
						contender{name: "PFADD and INCR, a pipeline", op: pipelined(n, true)},
						contender{name: "PFADD of all, to one page", op: together(n)})
				}
				if _, err := cfg.compare(ctx, fmt.Sprintf("%d page(s), add×%d", pages, n), redisMeter(p.admin), callers, cs); err != nil {
					return err
				}
			}
		}
		if err := v.Close(ctx); err != nil {
			return err
		}
		if err := p.admin.FlushAll(ctx).Err(); err != nil {
			return err
		}
	}
	return nil
}
