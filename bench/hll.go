package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/hll"
)

// benchHLL measures counting visits. Ours gathers them in the process and sends them once a second.
// The peers send PFADD: one by one, in pipelines, and a hundred visitors of one page in one command.
// Ours counts views too; so do the peers with INCR. A measurement should last a second, so that it
// contains a flush.
func benchHLL(ctx context.Context, cfg config) error {
	p, err := startPeers(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	visitors := make([]string, 1<<18)
	for i := range visitors {
		visitors[i] = fmt.Sprintf("user-%08d", i)
	}
	for _, pages := range []int{1, 1000} {
		v, err := hll.New(p.ours, hll.Options{})
		if err != nil {
			return err
		}
		names, keys, views := make([]string, pages), make([]string, pages), make([]string, pages)
		for i := range names {
			names[i] = fmt.Sprintf("/articles/%d/%d", pages, i)
			keys[i], views[i] = "visitors:"+names[i], "views:"+names[i]
		}
		// Each caller goes through all pages and visitors, from its own starting point. In a
		// service the name has just been read and is in the processor's cache; so it is here.
		var places [16]struct {
			n uint64
			_ [56]byte
		}
		for i := range places {
			places[i].n = uint64(i) * uint64(len(visitors)/len(places))
		}
		visit := func(caller int) (page int, visitor string) {
			p := &places[caller]
			p.n++
			return int(p.n % uint64(pages)), visitors[p.n%uint64(len(visitors))]
		}
		ours := func(n int) func(context.Context, int) error {
			return func(_ context.Context, caller int) error {
				for range n {
					page, visitor := visit(caller)
					if err := v.Add(names[page], visitor); err != nil {
						return err
					}
				}
				return nil
			}
		}
		add := func(ctx context.Context, c redis.Cmdable, caller int) error {
			page, visitor := visit(caller)
			return c.PFAdd(ctx, keys[page], visitor).Err()
		}
		pipelined := func(n int, counted bool) func(context.Context, int) error {
			return func(ctx context.Context, caller int) error {
				_, err := p.plain.Pipelined(ctx, func(pipe redis.Pipeliner) error {
					for range n {
						page, visitor := visit(caller)
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
			return func(ctx context.Context, caller int) error {
				page, _ := visit(caller)
				some := make([]any, n)
				for i := range some {
					_, some[i] = visit(caller)
				}
				return p.plain.PFAdd(ctx, keys[page], some...).Err()
			}
		}
		for _, callers := range []int{1, 16} {
			for _, n := range []int{1, 100} {
				// Earlier counts must not be sent during the next measurement.
				cs := []contender{{name: "redoubt/hll, Add", op: ours(n), stride: 1000 / n}}
				if n == 1 {
					cs = append(cs,
						contender{name: "PFADD", op: func(ctx context.Context, caller int) error { return add(ctx, p.plain, caller) }},
						contender{name: "PFADD, AutoPipeline", op: func(ctx context.Context, caller int) error { return add(ctx, p.auto, caller) }},
						contender{name: "PFADD and INCR, a pipeline", op: pipelined(1, true)})
				} else {
					cs = append(cs,
						contender{name: "PFADD, a pipeline", op: pipelined(n, false)},
						contender{name: "PFADD and INCR, a pipeline", op: pipelined(n, true)},
						contender{name: "PFADD of all, to one page", op: together(n)})
				}
				for i := range cs {
					cs[i].before = v.Flush
				}
				if _, err := cfg.compare(ctx, fmt.Sprintf("%d page(s), add×%d", pages, n), redisMeter(p.admin), callers, cs); err != nil {
					return err
				}
			}
		}
		if err := v.Close(); err != nil {
			return err
		}
		if err := p.admin.FlushAll(ctx).Err(); err != nil {
			return err
		}
	}
	return nil
}
