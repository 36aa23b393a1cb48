package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// changeFields returns a write to a hash whose fields have times to live.
func changeFields(r *rand.Rand) []any {
	key, field, ms := fmt.Sprint("h", r.IntN(20)), fmt.Sprint("f", r.IntN(30)), 1+r.IntN(300)
	all := [][]any{
		{"HSET", key, field, ms}, {"HSETEX", key, "PX", ms, "FIELDS", 2, field, ms, "g", 1}, {"HSETEX", key, "KEEPTTL", "FIELDS", 1, field, ms},
		{"HSETEX", key, "FIELDS", 1, field, ms}, {"HPEXPIRE", key, ms, "FIELDS", 2, field, "g"}, {"HEXPIRE", key, 1000, "NX", "FIELDS", 1, field},
		{"HPEXPIRE", key, 0, "FIELDS", 1, field}, {"HGETEX", key, "PX", ms, "FIELDS", 1, field}, {"HGETEX", key, "PERSIST", "FIELDS", 1, field},
		{"HPERSIST", key, "FIELDS", 1, field}, {"HGETDEL", key, "FIELDS", 1, field}, {"HINCRBY", key, field, 1}, {"HDEL", key, field}, {"DEL", key},
		{"COPY", key, "h0", "REPLACE"}, {"EVAL", "redis.call('HPEXPIRE', KEYS[1], 20, 'FIELDS', 1, ARGV[1]) return redis.call('HSET', KEYS[1], 'x', 1)", 1, key, field},
	}
	return all[r.IntN(len(all))]
}

// first is a connection on database 0, while the client's may be on others.
func (s *side) first(t *testing.T) *redis.Conn {
	t.Helper()
	conn := s.rdb.Conn()
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.Do(t.Context(), "SELECT", 0).Err(); err != nil {
		t.Fatal(err)
	}
	return conn
}

// hashes is what the hashes have, with the deadlines of their fields.
func hashes(t *testing.T, conn *redis.Conn) (all []string) {
	t.Helper()
	ctx := t.Context()
	for i := range 20 {
		key := fmt.Sprint("h", i)
		for name, value := range conn.HGetAll(ctx, key).Val() {
			at := conn.Do(ctx, "HPEXPIRETIME", key, "FIELDS", 1, name).Val()
			all = append(all, fmt.Sprint(key, " ", name, " ", value, " ", at))
		}
	}
	slices.Sort(all)
	return all
}

// TestFieldsExpireOnReplicas: times to live of fields reach a replica and its replica, while clients write.
//
// Promise: fields of hashes expire on a replica as on its master.
func TestFieldsExpireOnReplicas(t *testing.T) {
	seed := randtest.Seed(t)
	steps := randtest.Watch(t)
	step := func(what string) { steps.Begin(func() string { return what }) }
	step("load")
	master, middle, last := startSide(t, "engine"), startSide(t, "engine"), startSide(t, "engine")
	middle.follow(t, master)
	last.follow(t, middle)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var written sync.WaitGroup
	for i := range 3 {
		written.Add(1)
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // few
			for n := 0; ctx.Err() == nil; n++ {
				if n == 300 {
					written.Done()
				}
				_, _ = master.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
					p.Do(ctx, changeFields(r)...)
					p.Do(ctx, changeFields(r)...)
					return nil
				})
			}
		})
	}
	written.Wait()
	step("comparison")
	cancel()
	wg.Wait()
	for _, s := range []*side{middle, last} {
		equal(t, master, s)
		of, conn := master.first(t), s.first(t)
		var want, got []string
		await.Until(t, time.Minute, "both look at the same moment", func() bool {
			want, got = hashes(t, of), hashes(t, conn)
			return slices.Equal(want, got)
		})
		if len(want) == 0 {
			t.Error("no field is left")
		}
		if s.info(t)["master_link_status"] != "up" {
			t.Errorf("the replica has %v", s.info(t))
		}
	}
	if full := master.copies(t); full != 1 {
		t.Errorf("%d copies of all keys", full)
	}
}

// TestOldRedisLearnsNoFields: a Redis without times to live of fields loses its link, and no change in silence.
func TestOldRedisLearnsNoFields(t *testing.T) {
	master, replica := startSide(t, "engine"), startSide(t, "redis")
	if replica.rdb.Do(t.Context(), "HPTTL", "h", "FIELDS", 1, "f").Err() == nil {
		t.Skip("this server knows times to live of fields") // Reason: it is not an old one.
	}
	replica.follow(t, master)
	ctx := t.Context()
	if err := master.rdb.Do(ctx, "HSETEX", "h", "FIELDS", 1, "f", "v").Err(); err != nil {
		t.Fatal(err)
	}
	equal(t, master, replica)
	if got := replica.first(t).HGet(ctx, "h", "f").Val(); got != "v" {
		t.Errorf("HSETEX without a time to live gives the replica %q", got)
	}
	_, err := master.first(t).TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "x", 1, 0)
		p.Do(ctx, "HPEXPIRE", "h", 100_000, "FIELDS", 1, "f")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, time.Minute, "the replica has refused the file", func() bool {
		return replica.info(t)["master_link_status"] == "down" && master.copies(t) > 2
	})
}
