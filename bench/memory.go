package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A dataset is a million elements of one kind. Each is written rounds times. words makes the i-th command.
type dataset struct {
	title  string
	rounds int
	words  func(i int) []any
}

const millions = 1_000_000

func datasets() []dataset {
	key := func(i int) string { return fmt.Sprintf("key:%012d", i) }
	member := func(i int) string { return fmt.Sprintf("member:%012d", i) }
	value, churn := strings.Repeat("x", 20), strings.Repeat("x", 500)
	return []dataset{
		{"strings of 32 bytes", 1, func(i int) []any { return []any{"SET", key(i), fmt.Sprintf("%s%012d", value, i)} }},
		{"members of one sorted set", 1, func(i int) []any { return []any{"ZADD", "zset", i * 7919 % millions, member(i)} }},
		{"members of one set", 1, func(i int) []any { return []any{"SADD", "set", member(i)} }},
		{"fields of one hash", 1, func(i int) []any { return []any{"HSET", "hash", member(i), i} }},
		{"elements of one list", 1, func(i int) []any { return []any{"RPUSH", "list", member(i)} }},
		{"hashes of 5 fields", 1, func(i int) []any {
			return []any{"HSET", key(i), "id", i, "name", "somebody", "state", "open", "total", i % 1000, "until", 1732147200000 + i}
		}},
		{"lists of 5 elements", 1, func(i int) []any { return []any{"RPUSH", key(i), i, "one", "two", "three", member(i)} }},
		{"sets of 5 words", 1, func(i int) []any { return []any{"SADD", key(i), "red", "green", "blue", i, "yellow"} }},
		{"sets of 5 integers", 1, func(i int) []any { return []any{"SADD", key(i), i, i + 1, i + 2, i + 3, i % 7} }},
		{"sorted sets of 5 members", 1, func(i int) []any {
			return []any{"ZADD", key(i), i, "one", 2, "two", i % 1000, "three", 4, "four", 5.5, "five"}
		}},
		{"strings of 10 to 500 bytes, written 20 times", 20, func(i int) []any { // fragmentation
			return []any{"SET", key(i * 7919 % millions), churn[:10+uint32(i)*2654435761>>8%491]}
		}},
	}
}

// benchMemory loads the same data into a fresh redis-server and a fresh redoubt serve. It compares
// the engine's live heap with Redis' used_memory, and the sizes of the two processes: after the
// last reply, and a few seconds later. It uses the GC settings of serve.
func benchMemory(ctx context.Context, cfg config) error {
	for _, d := range datasets() {
		theirs, err := cfg.footprint(ctx, d, func(ctx context.Context) (target, func(), error) { return startRedis(ctx) })
		if err != nil {
			return err
		}
		ours, err := cfg.footprint(ctx, d, func(ctx context.Context) (target, func(), error) { return startServe(ctx) })
		if err != nil {
			return err
		}
		each := float64(cfg.amount(millions))
		for _, f := range []struct {
			title        string
			ours, theirs int
		}{{d.title, ours.live, theirs.live}, {d.title + ", resident", ours.loaded - ours.empty, theirs.loaded - theirs.empty}} {
			cfg.recordOnce(f.title, 0, "B", "redoubt serve", float64(f.ours)/each)
			cfg.recordOnce(f.title, 0, "B", "redis-server", float64(f.theirs)/each)
		}
		cfg.raw.Printf("raw\t%s\tserve %+v\tredis %+v", d.title, ours, theirs)
		ratio := func(a, b int) float64 { return float64(a) / float64(b) }
		cfg.printf("a million %-26s live %4.0f B each, redis %4.0f B, ratio %.2f   RSS %4d MB, idle %4d MB, redis %4d MB: ratio to RSS %.2f, without both empty %.2f, to used_memory %.2f",
			d.title, float64(ours.live)/each, float64(theirs.live)/each, ratio(ours.live, theirs.live),
			ours.loaded>>20, ours.idle>>20, theirs.loaded>>20, ratio(ours.loaded, theirs.loaded),
			ratio(ours.loaded-ours.empty, theirs.loaded-theirs.empty), ratio(ours.loaded, theirs.live))
	}
	return nil
}

// A footprint is the memory of a server, in bytes.
type footprint struct {
	live         int // used_memory; for the engine the heap after a collection
	empty        int // RSS before the first key
	loaded, idle int // RSS after the last reply, and some seconds later
	peak         int
	encoding     string
}

func (c config) footprint(ctx context.Context, d dataset, start func(context.Context) (target, func(), error)) (f footprint, err error) {
	t, stop, err := start(ctx)
	if err != nil {
		return f, err
	}
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: t.addr, Protocol: 2, ReadTimeout: time.Minute})
	defer func() { _ = rdb.Close() }()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return f, err
	}
	f.empty = rss(t.pid, "VmRSS:")
	const batch = 500
	all := d.rounds * c.amount(millions)
	for i := 0; i < all; i += batch {
		if i%100_000 == 0 {
			c.progress("a million %s, %s, %d%%", d.title, t.name, i*100/all)
		}
		if _, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for j := range batch {
				p.Do(ctx, d.words(i+j)...)
			}
			return nil
		}); err != nil {
			return f, fmt.Errorf("%s, %s: %w", d.title, t.name, err)
		}
	}
	c.progress("")
	f.loaded, f.peak = rss(t.pid, "VmRSS:"), rss(t.pid, "VmHWM:")
	if !c.isBrief() {
		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(5 * time.Second):
		}
	}
	f.idle = rss(t.pid, "VmRSS:")
	key := fmt.Sprint(d.words(1)[1])
	f.encoding, err = rdb.ObjectEncoding(ctx, key).Result()
	if err != nil {
		return f, err
	}
	name := "used_memory:"
	if t.name == "serve" { // its used_memory is the engine's own count and not the heap
		name = "allocator_allocated:" // after a collection it has live objects only
		if err := rdb.Do(ctx, "MEMORY", "PURGE").Err(); err != nil {
			return f, err
		}
	}
	info, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return f, err
	}
	for line := range strings.Lines(info) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok {
			f.live, err = strconv.Atoi(n)
			return f, err
		}
	}
	return f, fmt.Errorf("no %s in INFO", name)
}

// rss reads a size of a process from /proc, in bytes; it returns 0 without /proc.
func rss(pid int, name string) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		if words := strings.Fields(string(line)); len(words) == 3 && words[0] == name {
			kb, _ := strconv.Atoi(words[1])
			return kb << 10
		}
	}
	return 0
}
