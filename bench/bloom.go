package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/bloom"
)

const (
	bloomCapacity = 1_000_000
	bloomRate     = 0.01
	bloomHashes   = 7 // of a classic filter at 0.01
)

// One script with a BITFIELD for each bit of each item is what rueidisprob sends. Its
// module is not on the Go module proxy, so it can't be a dependency here; these send the
// same commands. SETBIT or GETBIT in a pipeline is what people write by hand.
var (
	bitsExist = redis.NewScript(`
local k, r, ones = tonumber(ARGV[1]), {}, 0
for i = 2, #ARGV do
  ones = ones + redis.call('BITFIELD', KEYS[1], 'GET', 'u1', ARGV[i])[1]
  if (i - 1) % k == 0 then r[#r + 1], ones = ones == k, 0 end
end
return r`)
	bitsAdd = redis.NewScript(`
local k, new, ones = tonumber(ARGV[1]), 0, 0
for i = 2, #ARGV do
  ones = ones + redis.call('BITFIELD', KEYS[1], 'SET', 'u1', ARGV[i], '1')[1]
  if (i - 1) % k == 0 then
    if ones ~= k then new = new + 1 end
    ones = 0
  end
end
return redis.call('INCRBY', KEYS[2], new)`)
)

// benchBloom measures lookups and adds, one by one and a hundred at once. Half of the items are in the
// filter.
func benchBloom(ctx context.Context, cfg config) error {
	p, err := startPeers(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	filters, err := bloom.New(p.ours, bloom.Options{})
	if err != nil {
		return err
	}
	f, err := filters.Open(ctx, "bench", bloom.Spec{Capacity: bloomCapacity, ErrorRate: bloomRate})
	if err != nil {
		return err
	}
	size := uint64(math.Ceil(bloomCapacity * -math.Log(bloomRate) / math.Ln2 / math.Ln2))
	if err := p.admin.SetBit(ctx, "bits", int64(size), 1).Err(); err != nil {
		return err
	}
	filled := cfg.amount(bloomCapacity / 2)
	cfg.progress("bloom: %d items are added to both", filled)
	for from := 0; from < filled; from += 1000 {
		items := make([]string, 1000)
		args := []any{bloomHashes}
		for i := range items {
			items[i] = strconv.Itoa(from + i)
			args = append(args, positions(from+i, size)...)
		}
		if _, err := f.AddMany(ctx, items); err != nil {
			return err
		}
		if err := bitsAdd.Run(ctx, p.admin, []string{"bits", "count"}, args...).Err(); err != nil {
			return err
		}
	}
	one := func() int { return rand.IntN(2 * filled) }
	pipeline := func(n int, bit func(pipe redis.Pipeliner, at int64)) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error {
			_, err := p.plain.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for range n {
					for _, at := range positions(one(), size) {
						bit(pipe, at.(int64))
					}
				}
				return nil
			})
			return err
		}
	}
	script := func(n int, s *redis.Script, keys ...string) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error {
			args := []any{bloomHashes}
			for range n {
				args = append(args, positions(one(), size)...)
			}
			return s.Run(ctx, p.plain, keys, args...).Err()
		}
	}
	many := func(n int) []string {
		items := make([]string, n)
		for i := range items {
			items[i] = strconv.Itoa(one())
		}
		return items
	}
	get := func(pipe redis.Pipeliner, at int64) { pipe.GetBit(context.Background(), "bits", at) }
	set := func(pipe redis.Pipeliner, at int64) { pipe.SetBit(context.Background(), "bits", at, 1) }
	for _, n := range []int{1, 100} {
		looks := []contender{
			{name: "redoubt/bloom, MayContain", op: func(ctx context.Context, _ int) error {
				_, err := f.MayContainMany(ctx, many(n))
				return err
			}},
			{name: "script, a BITFIELD a bit (rueidisprob)", op: script(n, bitsExist, "bits")},
			{name: "pipeline of GETBIT", op: pipeline(n, get)},
		}
		adds := []contender{
			{name: "redoubt/bloom, Add", op: func(ctx context.Context, _ int) error {
				_, err := f.AddMany(ctx, many(n))
				return err
			}},
			{name: "script, a BITFIELD a bit (rueidisprob)", op: script(n, bitsAdd, "bits", "count")},
			{name: "pipeline of SETBIT", op: pipeline(n, set)},
		}
		callers := cfg.callers
		if n > 1 {
			callers = []int{1, 16}
		}
		for _, c := range callers {
			if _, err := cfg.compare(ctx, fmt.Sprintf("exists×%d", n), redisMeter(p.admin), c, looks); err != nil {
				return err
			}
			if _, err := cfg.compare(ctx, fmt.Sprintf("add×%d", n), redisMeter(p.admin), c, adds); err != nil {
				return err
			}
		}
	}
	return nil
}

// positions returns the positions of an item in a classic filter.
func positions(item int, size uint64) []any {
	state := rand.NewPCG(uint64(item), 1) //nolint:gosec // never negative
	at := make([]any, bloomHashes)
	for i := range at {
		at[i] = int64(state.Uint64() % size) //nolint:gosec // below 2^32
	}
	return at
}
