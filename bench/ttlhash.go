package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/ttlhash"
)

const hashFields = 100_000

// RMapCache and most code by hand read by script: the deadline is in a sorted set, and the script
// reads it there.
var readByScript = redis.NewScript(`
local at = redis.call('ZSCORE', KEYS[2], ARGV[1])
local t = redis.call('TIME')
if at and tonumber(at) <= t[1] * 1000 + math.floor(t[2] / 1000) then return false end
return redis.call('HGET', KEYS[1], ARGV[1])`)

var writeByScript = redis.NewScript(`
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('ZADD', KEYS[2], t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[3], ARGV[1])`)

// benchTTLHash measures reads and writes of a hash with 100,000 fields of 100 bytes, sweeping, and
// the memory of a million fields.
func benchTTLHash(ctx context.Context, cfg config) error {
	p, err := startPeers(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	hashes, err := ttlhash.New(p.ours, ttlhash.Options{})
	if err != nil {
		return err
	}
	h := hashBench{config: cfg, p: p, hashes: hashes, value: strings.Repeat("x", 100)}
	parts := []func(context.Context) error{h.calls, h.bytes}
	if !cfg.isBrief() { // sweeping waits for real TTLs
		parts = append(parts, h.sweep)
	}
	for _, run := range parts {
		if err := p.admin.FlushAll(ctx).Err(); err != nil {
			return err
		}
		if err := run(ctx); err != nil {
			return err
		}
	}
	return nil
}

type hashBench struct {
	config
	p      *peers
	hashes *ttlhash.Hashes
	value  string
}

func hashField(i int) string { return fmt.Sprintf("user:%08d", i) }

// fill sets n fields of the hash called name.
func (h hashBench) fill(ctx context.Context, name string, n int, ttl func(i int) time.Duration) error {
	items := make([]ttlhash.Item, 0, 4096)
	for i := range n {
		items = append(items, ttlhash.Item{Field: hashField(i), Value: h.value, TTL: ttl(i)})
		if len(items) == cap(items) || i == n-1 {
			if err := h.hashes.SetMany(ctx, name, items); err != nil {
				return err
			}
			items = items[:0]
		}
	}
	return nil
}

// fillByHand sends pipelines of a thousand fields.
func (h hashBench) fillByHand(ctx context.Context, n int, set func(pipe redis.Pipeliner, i int)) error {
	for from := 0; from < n; from += 1000 {
		_, err := h.p.admin.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := from; i < min(n, from+1000); i++ {
				set(pipe, i)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func hour(i int) time.Duration { return time.Hour + time.Duration(i%1_000_000)*time.Millisecond }

func (h hashBench) calls(ctx context.Context) error {
	fields := h.amount(hashFields)
	h.progress("ttlhash: %d fields are set", fields)
	if err := h.fill(ctx, "bench", fields, hour); err != nil {
		return err
	}
	deadline := float64(time.Now().Add(time.Hour).UnixMilli())
	err := h.fillByHand(ctx, fields, func(pipe redis.Pipeliner, i int) {
		pipe.HSet(ctx, "hash", hashField(i), h.value)
		pipe.ZAdd(ctx, "deadlines", redis.Z{Score: deadline, Member: hashField(i)})
		pipe.Set(ctx, hashField(i), h.value, time.Hour)
	})
	if err != nil {
		return err
	}
	one := func() string { return hashField(rand.IntN(fields)) }
	reads := []contender{
		{name: "redoubt/ttlhash, Get", op: func(ctx context.Context, _ int) error {
			_, ok, err := h.hashes.Get(ctx, "bench", one())
			return found(ok, err)
		}},
		{name: "HGET", op: func(ctx context.Context, _ int) error { return h.p.plain.HGet(ctx, "hash", one()).Err() }},
		{name: "GET", op: func(ctx context.Context, _ int) error { return h.p.plain.Get(ctx, one()).Err() }},
		{name: "script, HGET and ZSCORE", op: func(ctx context.Context, _ int) error {
			return readByScript.Run(ctx, h.p.plain, []string{"hash", "deadlines"}, one()).Err()
		}},
	}
	writes := []contender{
		{name: "redoubt/ttlhash, Set", op: func(ctx context.Context, _ int) error {
			return h.hashes.Set(ctx, "bench", one(), h.value, time.Hour)
		}},
		{name: "SET PX", op: func(ctx context.Context, _ int) error { return h.p.plain.Set(ctx, one(), h.value, time.Hour).Err() }},
		{name: "script, HSET and ZADD", op: func(ctx context.Context, _ int) error {
			return writeByScript.Run(ctx, h.p.plain, []string{"hash", "deadlines"}, one(), h.value, 3_600_000).Err()
		}},
	}
	for _, callers := range h.callers {
		if _, err := h.compare(ctx, "read", redisMeter(h.p.admin), callers, reads); err != nil {
			return err
		}
		if _, err := h.compare(ctx, "write", redisMeter(h.p.admin), callers, writes); err != nil {
			return err
		}
	}
	return nil
}

func found(ok bool, err error) error {
	if err == nil && !ok {
		err = errors.New("a field is not there")
	}
	return err
}

// sweep lets fields expire, and then sweeps all of them.
func (h hashBench) sweep(ctx context.Context) error {
	const n, ttl = 200_000, 4 * time.Second
	var speeds []float64
	for round := range h.rounds {
		h.progress("ttlhash: sweeping, round %d of %d", round+1, h.rounds)
		name := fmt.Sprint("sweep", round)
		// A field that stays keeps the hash from being deleted as a whole.
		if err := h.hashes.Set(ctx, name, "stays", "", ttlhash.Never); err != nil {
			return err
		}
		if err := h.fill(ctx, name, n, func(i int) time.Duration { return ttl + time.Duration(i%1000)*time.Millisecond }); err != nil {
			return err
		}
		select {
		case <-time.After(ttl + ttl/32 + time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		began := time.Now()
		swept, err := h.hashes.Sweep(ctx, name)
		if err != nil {
			return err
		}
		took := time.Since(began)
		if swept == 0 {
			return errors.New("nothing was swept")
		}
		speeds = append(speeds, float64(swept)/took.Seconds())
		h.raw.Printf("raw\tsweep\t%d fields in %v", swept, took)
	}
	h.printf("sweep: %.0f fields a second", medianOf(speeds))
	return nil
}

// bytes fills a million of each kind.
func (h hashBench) bytes(ctx context.Context) error {
	n := h.amount(millions)
	for _, kind := range []struct {
		name string
		fill func() error
	}{
		{"redoubt/ttlhash", func() error { return h.fill(ctx, "bench", n, hour) }},
		{"strings with PX", func() error {
			return h.fillByHand(ctx, n, func(pipe redis.Pipeliner, i int) { pipe.Set(ctx, hashField(i), h.value, hour(i)) })
		}},
		{"hash and sorted set", func() error {
			now := time.Now()
			return h.fillByHand(ctx, n, func(pipe redis.Pipeliner, i int) {
				pipe.HSet(ctx, "hash", hashField(i), h.value)
				pipe.ZAdd(ctx, "deadlines", redis.Z{Score: float64(now.Add(hour(i)).UnixMilli()), Member: hashField(i)})
			})
		}},
	} {
		h.progress("ttlhash: a million, %s", kind.name)
		if err := h.p.admin.FlushAll(ctx).Err(); err != nil {
			return err
		}
		before, err := h.used(ctx)
		if err != nil {
			return err
		}
		if err := kind.fill(); err != nil {
			return err
		}
		after, err := h.used(ctx)
		if err != nil {
			return err
		}
		h.recordOnce("a field of 100 bytes", 0, "B", kind.name, float64(after-before)/float64(n))
		h.printf("a million fields of 100 bytes, %-20s %.1f B each", kind.name, float64(after-before)/float64(n))
	}
	return nil
}

// used returns used_memory.
func (h hashBench) used(ctx context.Context) (n int64, err error) {
	info, err := h.p.admin.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	_, err = fmt.Sscan(rest, &n)
	return n, err
}
