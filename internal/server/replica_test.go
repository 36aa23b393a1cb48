package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// side is a server at one end of a replication.
type side struct {
	addr  string
	rdb   *redis.Client
	redis *redistest.Server // nil: an engine
}

func startSide(t *testing.T, kind string) *side {
	t.Helper()
	s := &side{}
	if kind == "redis" {
		s.redis = redistest.Start(t, "--repl-diskless-sync-delay", "0")
		s.addr = s.redis.Addr()
	} else {
		_, s.addr = start(t, engineURL(t))
	}
	s.rdb = redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() { _ = s.rdb.Close() })
	return s
}

// follow makes s a replica of another, and waits until it has all keys.
func (s *side) follow(t *testing.T, of *side) {
	t.Helper()
	host, port, _ := net.SplitHostPort(of.addr)
	if err := s.rdb.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	s.awaitLink(t)
}

func (s *side) awaitLink(t *testing.T) {
	t.Helper()
	await.Until(t, time.Minute, "the link is up", func() bool { return s.info(t)["master_link_status"] == "up" })
}

func (s *side) info(t *testing.T) map[string]string {
	t.Helper()
	info, err := s.rdb.InfoMap(t.Context(), "replication").Result()
	if err != nil {
		t.Fatal(err)
	}
	return info["Replication"]
}

// contents is what all databases have.
func (s *side) contents(t *testing.T) []string {
	t.Helper()
	var all []string
	ctx := t.Context()
	for db := range 3 {
		conn := s.rdb.Conn()
		if err := conn.Do(ctx, "SELECT", db).Err(); err != nil {
			t.Fatal(err)
		}
		keys, err := conn.Keys(ctx, "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		types, _ := conn.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its error
			for _, key := range keys {
				p.Type(ctx, key)
			}
			return nil
		})
		values, _ := conn.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				p.Do(ctx, "PEXPIRETIME", key)
				switch types[i].(*redis.StatusCmd).Val() {
				case "string":
					p.Get(ctx, key)
				case "list":
					p.LRange(ctx, key, 0, -1)
				case "set":
					p.Do(ctx, "SORT_RO", key, "ALPHA")
				case "hash":
					p.HGetAll(ctx, key) // fmt sorts maps
				case "zset":
					p.ZRangeWithScores(ctx, key, 0, -1)
				case "stream":
					p.XRange(ctx, key, "-", "+")
				default: // it has expired since
					p.Exists(ctx, key)
				}
			}
			return nil
		})
		for i, key := range keys {
			kind, value := types[i].(*redis.StatusCmd).Val(), values[2*i+1].String()
			if kind == "stream" {
				value += s.groups(ctx, conn, key)
			}
			if kind != "none" {
				all = append(all, fmt.Sprintf("%d %s %s %v %q", db, key, kind, values[2*i].(*redis.Cmd).Val(), value))
			}
		}
		_ = conn.Close()
	}
	slices.Sort(all)
	return all
}

// groups describes the groups of a stream with their pending entries.
func (s *side) groups(ctx context.Context, conn *redis.Conn, key string) (text string) {
	for _, g := range conn.XInfoGroups(ctx, key).Val() {
		g.EntriesRead, g.Lag = 0, 0 // which Redis does not replicate with XREADGROUP
		pending, err := conn.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: key, Group: g.Name, Start: "-", End: "+", Count: 1000}).Result()
		for i := range pending {
			pending[i].Idle = 0
		}
		text += fmt.Sprint(g, pending, err)
	}
	return text
}

// keys is how many keys change: so many that a copy of all takes some time.
const keys = 3000

// change returns a write.
func change(r *rand.Rand) []any {
	key := fmt.Sprint("k", r.IntN(keys))
	other := fmt.Sprint("k", r.IntN(keys))
	n, m := r.IntN(20), fmt.Sprint("m", r.IntN(40))
	long := strings.Repeat(m, 1+r.IntN(40))
	all := [][]any{
		{"SET", key, long}, {"SET", key, n, "PX", 20 + r.IntN(3000)}, {"INCRBY", key, n}, {"INCRBYFLOAT", key, "0.1"}, {"APPEND", key, m}, {"SETRANGE", key, n, m},
		{"GETDEL", key}, {"GETEX", key, "PX", 20 + r.IntN(3000)}, {"SETBIT", key, n, 1}, {"BITFIELD", key, "INCRBY", "u8", n, 3}, {"PFADD", key, m}, {"PFMERGE", key, other},
		{"RPUSH", key, m, long}, {"LPUSH", key, m}, {"LPOP", key, 2}, {"LREM", key, 0, m}, {"LINSERT", key, "BEFORE", m, n}, {"LMOVE", key, other, "LEFT", "RIGHT"}, {"LTRIM", key, 0, 20}, {"BLPOP", key, "0.001"},
		{"SADD", key, m, n}, {"SADD", key, n}, {"SREM", key, m}, {"SPOP", key, 2}, {"SMOVE", key, other, m}, {"SUNIONSTORE", key, key, other},
		{"HSET", key, m, long, n, m}, {"HDEL", key, m}, {"HINCRBY", key, n, 1}, {"HINCRBYFLOAT", key, "f", "0.5"},
		{"ZADD", key, n, m, "0.1", long}, {"ZINCRBY", key, "0.1", m}, {"ZREM", key, m}, {"ZPOPMIN", key}, {"ZRANGESTORE", key, other, 0, 10}, {"GEOADD", key, "13.36", "38.11", m},
		{"XADD", key, "*", m, long}, {"XADD", key, "MAXLEN", "~", 20, "*", m, n}, {"XTRIM", key, "MAXLEN", 10}, {"XGROUP", "CREATE", key, "g", "0", "MKSTREAM"},
		{"XREADGROUP", "GROUP", "g", m, "COUNT", 2, "STREAMS", key, ">"}, {"XAUTOCLAIM", key, "g", m, 0, "0", "COUNT", 2}, {"XGROUP", "DESTROY", key, "g"},
		{"DEL", key, other}, {"RENAME", key, other}, {"COPY", key, other, "REPLACE"}, {"PEXPIRE", key, 20 + r.IntN(3000)}, {"PERSIST", key}, {"MOVE", key, 1 + r.IntN(2)}, {"SORT", key, "ALPHA", "STORE", other},
		{"EVAL", "redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], ARGV[1], redis.call('TIME')[2]) return redis.call('INCR', KEYS[2])", 2, key, other, m},
		{"PUBLISH", "channel", m},
	}
	return all[r.IntN(len(all))]
}

// load writes until the function that it returns is called.
func (s *side) load(t *testing.T, seed uint64, writers int) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // few
			conn := s.rdb.Conn()
			defer func() { _ = conn.Close() }()
			if i == 0 {
				conn.Do(ctx, "SELECT", 2)
			}
			for ctx.Err() == nil {
				if r.IntN(8) > 0 {
					conn.Do(ctx, change(r)...) // errors such as WRONGTYPE are part of it
					continue
				}
				_, _ = conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
					p.Do(ctx, change(r)...)
					p.Do(ctx, change(r)...)
					return nil
				})
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// equal waits until both sides have the same keys with the same values.
func equal(t *testing.T, master, replica *side) {
	t.Helper()
	var want, got []string
	await.Until(t, time.Minute, "the replica has all of the stream", func() bool {
		return master.info(t)["master_repl_offset"] == replica.info(t)["slave_repl_offset"]
	})
	for range 50 { // keys expire between the two looks
		want, got = master.contents(t), replica.contents(t)
		if slices.Equal(want, got) {
			return
		}
	}
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("%d and %d keys; the first difference:\nmaster:  %.300s\nreplica: %.300s", len(want), len(got), element(want, i), element(got, i))
		}
	}
}

func element(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "none"
}

// TestReplication: a Redis follows the engine, the engine a Redis, and an engine another, while clients write. After
// lost connections they go on, and in the end both have the same.
//
// Promise: a replica that has the whole stream has the same keys as its master.
func TestReplication(t *testing.T) {
	for _, kinds := range [][2]string{{"engine", "redis"}, {"redis", "engine"}, {"engine", "engine"}} {
		t.Run(kinds[0]+" to "+kinds[1], func(t *testing.T) {
			seed := randtest.Seed(t)
			steps := randtest.Watch(t)
			step := func(what string) { steps.Begin(func() string { return what }) }
			step("load")
			master, replica := startSide(t, kinds[0]), startSide(t, kinds[1])
			end := master.load(t, seed, 4)
			await.Until(t, time.Minute, "there are keys", func() bool { return master.rdb.DBSize(t.Context()).Val() > keys/2 })
			replica.follow(t, master)
			for i := range 3 {
				step(fmt.Sprint("lost connection ", i))
				before := replica.info(t)["slave_repl_offset"]
				await.Until(t, time.Minute, "the stream goes on", func() bool { return replica.info(t)["slave_repl_offset"] != before })
				if replica.redis != nil {
					replica.rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "master")
				} else if master.redis != nil {
					master.rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica")
				}
				replica.awaitLink(t)
			}
			end()
			step("comparison")
			equal(t, master, replica)
			// The replica takes over.
			if err := replica.rdb.Set(t.Context(), "written", "here", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
				t.Errorf("a replica takes writes: %v", err)
			}
			want := replica.contents(t)
			if err := replica.rdb.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
				t.Fatal(err)
			}
			if err := replica.rdb.Set(t.Context(), "written", "here", 0).Err(); err != nil {
				t.Error(err)
			}
			if len(want) == 0 {
				t.Error("nothing was replicated")
			}
		})
	}
}

// TestReplicaEndsWaits: a command that waits in order to write ends when the engine becomes a replica, or it would
// take what the master's stream adds.
func TestReplicaEndsWaits(t *testing.T) {
	master, replica := startSide(t, "engine"), startSide(t, "engine")
	waiting := make(chan error, 1)
	go func() { waiting <- replica.rdb.BLPop(t.Context(), 0, "list").Err() }()
	await.Until(t, time.Minute, "BLPOP waits", func() bool {
		info, err := replica.rdb.InfoMap(t.Context(), "clients").Result()
		return err == nil && info["Clients"]["blocked_clients"] == "1"
	})
	replica.follow(t, master)
	if err := <-waiting; err == nil || !strings.HasPrefix(err.Error(), "UNBLOCKED") {
		t.Errorf("BLPOP ends with %v", err)
	}
	master.rdb.RPush(t.Context(), "list", "v")
	equal(t, master, replica)
}
