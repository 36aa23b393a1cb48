package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/bitmap"
)

// benchBitmap measures setting and reading bits, one by one and a hundred at once, counting them,
// and counting the bits that two maps have in common. The peers are SETBIT, GETBIT, BITCOUNT and
// BITOP on one key each. Half of ten million bits are set in each map.
func benchBitmap(ctx context.Context, cfg config) error {
	p, err := startPeers(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	all, err := bitmap.New(p.ours, bitmap.Options{})
	if err != nil {
		return err
	}
	size := uint64(cfg.amount(10_000_000)) //nolint:gosec // never negative
	cfg.progress("bitmap: ten million bits are set in both")
	for name, step := range map[string]uint64{"a": 2, "b": 3} {
		for from := uint64(0); from < size; from += 100_000 { // it divides size
			var offsets []uint64
			for o := from; o < from+100_000; o += step {
				offsets = append(offsets, o)
			}
			if _, err := all.Set(ctx, name, offsets...); err != nil {
				return err
			}
			_, err := p.admin.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for _, o := range offsets {
					pipe.SetBit(ctx, "plain:"+name, int64(o), 1) //nolint:gosec // below size
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	var last atomic.Uint64
	next := func(n int) []uint64 {
		offsets := make([]uint64, n)
		for i := range offsets {
			offsets[i] = last.Add(7919*1009) % size
		}
		return offsets
	}
	pipelined := func(n int, bit func(ctx context.Context, pipe redis.Pipeliner, at int64)) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error {
			_, err := p.plain.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for _, o := range next(n) {
					bit(ctx, pipe, int64(o)) //nolint:gosec // below size
				}
				return nil
			})
			return err
		}
	}
	for _, n := range []int{1, 100} {
		for _, callers := range []int{1, 16} {
			err := cfg.each(ctx, p, callers, map[string][]contender{
				fmt.Sprintf("set×%d", n): {
					{name: "redoubt/bitmap, Set", op: func(ctx context.Context, _ int) error {
						_, err := all.Set(ctx, "a", next(n)...)
						return err
					}},
					{name: "pipeline of SETBIT", op: pipelined(n, func(ctx context.Context, pipe redis.Pipeliner, at int64) { pipe.SetBit(ctx, "plain:a", at, 1) })},
				},
				fmt.Sprintf("get×%d", n): {
					{name: "redoubt/bitmap, GetMany", op: func(ctx context.Context, _ int) error {
						_, err := all.GetMany(ctx, "a", next(n))
						return err
					}},
					{name: "pipeline of GETBIT", op: pipelined(n, func(ctx context.Context, pipe redis.Pipeliner, at int64) { pipe.GetBit(ctx, "plain:a", at) })},
				},
			})
			if err != nil {
				return err
			}
		}
	}
	return cfg.each(ctx, p, 1, map[string][]contender{
		"count": {
			{name: "redoubt/bitmap, Count", op: func(ctx context.Context, _ int) error {
				_, err := all.Count(ctx, "a")
				return err
			}},
			{name: "BITCOUNT", op: func(ctx context.Context, _ int) error { return p.plain.BitCount(ctx, "plain:a", nil).Err() }},
		},
		"both": {
			{name: "redoubt/bitmap, CountOf And", op: func(ctx context.Context, _ int) error {
				_, err := all.CountOf(ctx, bitmap.And, "a", "b")
				return err
			}},
			{name: "BITOP AND, BITCOUNT, DEL", op: func(ctx context.Context, _ int) error {
				_, err := p.plain.Pipelined(ctx, func(pipe redis.Pipeliner) error {
					pipe.BitOpAnd(ctx, "work", "plain:a", "plain:b")
					pipe.BitCount(ctx, "work", nil)
					pipe.Del(ctx, "work")
					return nil
				})
				return err
			}},
		},
	})
}

// each compares the contenders of each title.
func (c config) each(ctx context.Context, p *peers, callers int, titles map[string][]contender) error {
	for _, title := range slices.Sorted(maps.Keys(titles)) {
		if _, err := c.compare(ctx, title, redisMeter(p.admin), callers, titles[title]); err != nil {
			return err
		}
	}
	return nil
}
