package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	rediscache "github.com/go-redis/cache/v9"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/benchmarks"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	wire "github.com/redoubt-go/redoubt/internal/wire/lock"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/stock"
)

// A growing operation is measured while something grows. on fills a server with n objects and returns the operation on
// the object i, which is below n.
type growing struct {
	title string
	on    func(ctx context.Context, c *redoubt.Client, n int) (onObject, error)
	peers []growingPeer
}

type onObject func(ctx context.Context, caller, i int) error

// A growingPeer is a library that has the same operation; on is like growing.on.
type growingPeer struct {
	name string
	on   func(ctx context.Context, p *peers, n int) (onObject, error)
}

const (
	growthCallers = 1000
	growthFilters = 16 // filters to look up, so that a cluster has some on each node
)

// hourly is so high that no call is refused, and so slow that names stay while they are measured.
var hourly = ratelimit.Limit{Rate: 1_000_000_000, Period: time.Hour}

var growingOperations = []growing{
	{"limit", growingLimit, []growingPeer{
		{"redis_rate", func(_ context.Context, p *peers, _ int) (onObject, error) { return growingRedisRate(p.plain), nil }},
		{"redis_rate on AutoPipeline", func(_ context.Context, p *peers, _ int) (onObject, error) { return growingRedisRate(p.auto), nil }},
	}},
	{"lock, unlock", growingLock, []growingPeer{
		{"redislock", func(_ context.Context, p *peers, _ int) (onObject, error) { return growingRedislock(p.plain), nil }},
		{"redislock on AutoPipeline", func(_ context.Context, p *peers, _ int) (onObject, error) { return growingRedislock(p.auto), nil }},
	}},
	{"queue: put, handled", growingQueue, nil},
	{"cache: get", growingCache, []growingPeer{
		{"go-redis/cache", func(ctx context.Context, p *peers, n int) (onObject, error) {
			return growingRedisCache(ctx, rediscache.New(&rediscache.Options{Redis: p.plain}), n)
		}},
		{"go-redis/cache on AutoPipeline", func(ctx context.Context, p *peers, n int) (onObject, error) {
			return growingRedisCache(ctx, rediscache.New(&rediscache.Options{Redis: p.auto}), n)
		}},
	}},
	{"filter: look up", growingFilter, []growingPeer{{"pipeline of GETBIT", growingBits}}},
	{"stock: reserve, commit", growingStock, []growingPeer{{"lock-read-write, redislock", growingSale}}},
}

// growingPut has a peer, and leaves all its messages behind: so it is measured only where nothing grows with them.
var growingPut = growing{"queue: put", func(_ context.Context, c *redoubt.Client, _ int) (onObject, error) {
	q, err := queue.New[string](c, queue.Options{})
	return func(ctx context.Context, _, _ int) error { _, err := q.Put(ctx, queueName, "a message"); return err }, err
}, []growingPeer{{"asynq", func(_ context.Context, p *peers, _ int) (onObject, error) {
	client := asynq.NewClientFromRedisClient(p.plain)
	return func(ctx context.Context, _, _ int) error {
		_, err := client.EnqueueContext(ctx, asynq.NewTask("t", []byte("a message")))
		return err
	}, nil
}}}}

// fillMany calls put for all numbers below n, by many callers, in steps.
func fillMany(n, step int, put func(from, to int) error) error {
	var next atomic.Int64
	const callers = 64
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for errs[caller] == nil {
				to := int(next.Add(int64(step)))
				if to-step >= n {
					return
				}
				errs[caller] = put(to-step, min(to, n))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func growingLimit(ctx context.Context, c *redoubt.Client, n int) (onObject, error) {
	l, err := ratelimit.New(c, ratelimit.Options{Limit: hourly})
	if err != nil {
		return nil, err
	}
	name := func(i int) string { return "user:" + strconv.Itoa(i) }
	err = fillMany(n, 1, func(i, _ int) error {
		_, err := l.AllowN(ctx, name(i), hourly.Rate/2)
		return err
	})
	return func(ctx context.Context, _, i int) error { _, err := l.Allow(ctx, name(i)); return err }, err
}

// growingLock acquires free locks beside n that are held.
func growingLock(ctx context.Context, c *redoubt.Client, n int) (onObject, error) {
	m, err := lock.New(c, lock.Options{})
	if err != nil {
		return nil, err
	}
	err = fillMany(n, 100, func(from, to int) error {
		cmds := make([]redoubt.Cmd, to-from)
		for i := range cmds {
			keys, err := wire.Keys(c, "held:"+strconv.Itoa(from+i))
			if err != nil {
				return err
			}
			cmds[i] = wire.AcquireCmd(keys, wire.Request{ID: wire.NewID(), TTL: time.Hour})
		}
		var errs []error
		for _, r := range c.Pipeline(ctx, cmds) {
			errs = append(errs, r.Err)
		}
		return errors.Join(errs...)
	})
	return func(ctx context.Context, caller, _ int) error {
		l, err := m.Acquire(ctx, "own:"+strconv.Itoa(caller))
		return released(ctx, l, err)
	}, err
}

// growingQueue puts a message into the caller's queue and handles it. n messages for later are in these queues.
func growingQueue(ctx context.Context, c *redoubt.Client, n int) (onObject, error) {
	q, err := queue.New[string](c, queue.Options{})
	if err != nil {
		return nil, err
	}
	name := func(i int) string { return "q:" + strconv.Itoa(i) }
	tomorrow := time.Now().Add(24 * time.Hour)
	var turn atomic.Int64
	err = fillMany(n, queueMany, func(from, to int) error {
		requests := make([]queue.Request[string], to-from)
		for i := range requests {
			requests[i] = queue.Request[string]{Value: "a message", At: tomorrow}
		}
		_, err := q.PutMany(ctx, name(int(turn.Add(1))%growthFilters), requests)
		return err
	})
	done := func(context.Context, *queue.Delivery[string]) error { return nil }
	return func(ctx context.Context, caller, _ int) error {
		if _, err := q.Put(ctx, name(caller), "a message"); err != nil {
			return err
		}
		_, err := q.Work(ctx, name(caller), done, queue.RunOptions{})
		return err
	}, err
}

func growingCache(ctx context.Context, c *redoubt.Client, n int) (onObject, error) {
	users, err := cache.New(c, cache.Options[string, string]{Name: "growth", TTL: time.Hour, Codec: cache.Text()})
	if err != nil {
		return nil, err
	}
	err = fillMany(n, 1, func(i, _ int) error { return users.Set(ctx, cachedKey(i), cachedValue) })
	load := func(context.Context, string) (string, bool, error) { return "", false, errors.New("an entry is gone") }
	return func(ctx context.Context, _, i int) error { _, _, err := users.Get(ctx, cachedKey(i), load); return err }, err
}

func growingFilter(ctx context.Context, c *redoubt.Client, n int) (onObject, error) {
	filters, err := bloom.New(c, bloom.Options{})
	if err != nil {
		return nil, err
	}
	var open [growthFilters]*bloom.Filter
	for i := range open {
		if open[i], err = filters.Open(ctx, "filter:"+strconv.Itoa(i), bloom.Spec{Capacity: int64(max(n/growthFilters, 1000)), ErrorRate: bloomRate}); err != nil {
			return nil, err
		}
	}
	const step = 500
	err = fillMany(n, step, func(from, to int) error {
		items := make([]string, to-from)
		for i := range items {
			items[i] = strconv.Itoa(from + i)
		}
		_, err := open[from/step%growthFilters].AddMany(ctx, items)
		return err
	})
	return func(ctx context.Context, _, i int) error {
		_, err := open[i/step%growthFilters].MayContain(ctx, strconv.Itoa(i))
		return err
	}, err
}

func growingStock(ctx context.Context, c *redoubt.Client, n int) (onObject, error) {
	items, err := stock.New(c, stock.Options{})
	if err != nil {
		return nil, err
	}
	name := func(i int) string { return "item:" + strconv.Itoa(i) }
	err = fillMany(n, 1, func(i, _ int) error { _, err := items.Set(ctx, name(i), plenty); return err })
	return func(ctx context.Context, _, i int) error {
		r, short, err := items.Reserve(ctx, name(i), 1)
		if short != nil {
			err = errors.New("sold out")
		}
		if err != nil {
			return err
		}
		return items.Commit(ctx, name(i), r.ID)
	}, err
}

func growingRedisRate(on interface {
	redis.Scripter
	Del(ctx context.Context, keys ...string) *redis.IntCmd
}) onObject {
	allow := redisRate(on, floods[0])
	return func(ctx context.Context, _, i int) error { _, err := allow(ctx, "user:"+strconv.Itoa(i)); return err }
}

func growingRedislock(on redislock.RedisClient) onObject {
	locks := redislock.New(on)
	return func(ctx context.Context, caller, _ int) error {
		l, err := locks.Obtain(ctx, "redislock:"+strconv.Itoa(caller), lockTTL, nil)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
}

func growingRedisCache(ctx context.Context, c *rediscache.Cache, n int) (onObject, error) {
	key := func(i int) string { return "peer:" + cachedKey(i) }
	err := fillMany(n, 1, func(i, _ int) error {
		return c.Set(&rediscache.Item{Ctx: ctx, Key: key(i), Value: cachedValue, TTL: time.Hour})
	})
	return func(ctx context.Context, _, i int) error {
		var v string
		return c.Get(ctx, key(i), &v)
	}, err
}

func growingBits(ctx context.Context, p *peers, n int) (onObject, error) {
	const size = 10 * 1_000_000
	return func(ctx context.Context, _, i int) error {
		_, err := p.plain.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, at := range positions(i, size) {
				pipe.GetBit(ctx, "bits", at.(int64))
			}
			return nil
		})
		return err
	}, p.plain.SetBit(ctx, "bits", size, 1).Err()
}

// growingSale sells by a lock around a count, of an item for each buyer, so that nobody waits.
func growingSale(ctx context.Context, p *peers, n int) (onObject, error) {
	locks := redislock.New(p.plain)
	key := func(i int) string { return "count:" + strconv.Itoa(i) }
	err := fillMany(n, 1, func(i, _ int) error { return p.plain.Set(ctx, key(i), plenty, 0).Err() })
	return func(ctx context.Context, _, i int) error {
		l, err := locks.Obtain(ctx, key(i)+":lock", lockTTL, nil)
		if err != nil {
			return err
		}
		left, err := p.plain.Get(ctx, key(i)).Int64()
		if err == nil {
			err = p.plain.Set(ctx, key(i), left-1, 0).Err()
		}
		return errors.Join(err, l.Release(ctx))
	}, err
}

// benchGrowth measures how the cost of the main operations changes as callers, keys, shards and the round trip grow,
// and the memory of one object of each primitive.
func benchGrowth(ctx context.Context, cfg config) error {
	for _, part := range []struct {
		name string
		run  func(context.Context, config) error
	}{
		{"callers", growCallers}, {"keys", growKeys}, {"shards", growShards}, {"round trip", growRoundTrip}, {"memory", measureObjects},
	} {
		cfg.suite = "growth " + part.name
		if err := part.run(ctx, cfg); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// own lets each caller use one object of its own.
func own(op onObject) func(context.Context, int) error {
	return func(ctx context.Context, caller int) error { return op(ctx, caller, caller) }
}

// anyOf lets callers use any of n objects.
func anyOf(n int, op onObject) func(context.Context, int) error {
	return func(ctx context.Context, caller int) error { return op(ctx, caller, rand.IntN(n)) }
}

// bothServers has a Redis and an engine in this process, to be filled anew for each measurement.
func bothServers(ctx context.Context) (p *peers, onEngine *redoubt.Client, e *engine.Engine, stop func(), err error) {
	if p, err = startPeers(ctx); err != nil {
		return nil, nil, nil, nil, err
	}
	if e, err = engine.Open(ctx, engine.Options{}); err != nil {
		p.close()
		return nil, nil, nil, nil, err
	}
	if onEngine, err = redoubt.New(e, redoubt.Options{}); err != nil {
		_ = e.Close()
		p.close()
		return nil, nil, nil, nil, err
	}
	return p, onEngine, e, func() {
		_ = onEngine.Close()
		_ = e.Close()
		p.close()
	}, nil
}

const (
	oursOnRedis  = "redoubt on Redis"
	oursOnEngine = "redoubt on the engine"
)

// onBoth fills Redis and the engine with n objects of an operation, and returns our contenders on both.
func onBoth(ctx context.Context, p *peers, onEngine *redoubt.Client, e *engine.Engine, g growing, n int, who func(onObject) func(context.Context, int) error) (cs []contender, err error) {
	if err := errors.Join(p.admin.FlushAll(ctx).Err(), e.Do(ctx, redoubt.Cmd{Name: "FLUSHALL"}).Err); err != nil {
		return nil, err
	}
	onRedis, err1 := g.on(ctx, p.ours, n)
	inProcess, err2 := g.on(ctx, onEngine, n)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("%s, %d objects: %w", g.title, n, err)
	}
	return []contender{{name: oursOnRedis, op: who(onRedis)}, {name: oursOnEngine, op: who(inProcess), stride: localStride}}, nil
}

// addPeers adds the peers that have the operation, after making n objects for each.
func addPeers(ctx context.Context, cs []contender, g growing, p *peers, n int) ([]contender, error) {
	for _, peer := range g.peers {
		op, err := peer.on(ctx, p, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", peer.name, err)
		}
		cs = append(cs, contender{name: peer.name, op: own(op)})
	}
	return cs, nil
}

func growCallers(ctx context.Context, cfg config) error {
	p, onEngine, e, stop, err := bothServers(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, g := range growingOperations {
		cfg.progress("%s: objects are made", g.title)
		cs, err := onBoth(ctx, p, onEngine, e, g, growthCallers, own)
		if err == nil {
			cs, err = addPeers(ctx, cs, g, p, growthCallers)
		}
		if err != nil {
			return err
		}
		for _, callers := range []int{1, 10, 100, growthCallers} {
			if _, err := cfg.compare(ctx, g.title, redisMeter(p.admin), callers, cs); err != nil {
				return err
			}
		}
	}
	return nil
}

func growKeys(ctx context.Context, cfg config) error {
	sizes := []int{1000, 10_000, 100_000, 1_000_000}
	switch {
	case cfg.isBrief():
		sizes = sizes[:2]
	case cfg.full:
		sizes = append(sizes, 10_000_000)
	}
	p, onEngine, e, stop, err := bothServers(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, g := range growingOperations {
		for _, n := range sizes {
			cfg.progress("%s: %d objects are made", g.title, n)
			cs, err := onBoth(ctx, p, onEngine, e, g, n, func(op onObject) func(context.Context, int) error { return anyOf(n, op) })
			if err != nil {
				return err
			}
			cfg.grown = n
			if _, err := cfg.compare(ctx, g.title, redisMeter(p.admin), 16, cs); err != nil {
				return err
			}
		}
	}
	return nil
}

func growShards(ctx context.Context, cfg config) error {
	for _, shards := range []int{1, 2, 3, 6} {
		cfg.progress("a cluster of %d is started", shards)
		cfg.grown = shards
		if err := cfg.onCluster(ctx, shards); err != nil {
			return fmt.Errorf("%d shards: %w", shards, err)
		}
	}
	return nil
}

func (c config) onCluster(ctx context.Context, shards int) error {
	url, _, stop, err := startCluster(ctx, shards)
	if err != nil {
		return err
	}
	defer stop()
	conn, err := goredis.Open(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close()
	client, err := redoubt.New(conn, redoubt.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	nobody := func(context.Context) work { return work{} } // the commands of several servers are not added up
	for _, g := range growingOperations {
		const callers = 100
		op, err := g.on(ctx, client, callers)
		if err != nil {
			return fmt.Errorf("%s: %w", g.title, err)
		}
		if _, err := c.compare(ctx, g.title, nobody, callers, []contender{{name: "redoubt on a cluster", op: own(op)}}); err != nil {
			return err
		}
	}
	return nil
}

func growRoundTrip(ctx context.Context, cfg config) error {
	server, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	admin := redis.NewClient(&redis.Options{Addr: server.addr})
	defer admin.Close()
	for _, trip := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		proxy, err := faultnet.Start(server.addr)
		if err != nil {
			return err
		}
		proxy.Delay(trip / 2)
		c := cfg
		c.grown, c.duration = int(trip.Milliseconds()), max(cfg.duration, 4*trip)
		err = c.throughProxy(ctx, proxy.Addr(), admin)
		proxy.Close()
		if err != nil {
			return fmt.Errorf("a round trip of %v: %w", trip, err)
		}
	}
	return nil
}

// throughProxy measures one caller's latency and the throughput of 100 callers.
func (c config) throughProxy(ctx context.Context, addr string, admin *redis.Client) error {
	p, err := newPeers(ctx, addr)
	if err != nil {
		return err
	}
	defer p.close()
	for _, g := range append([]growing{growingPut}, growingOperations...) {
		if len(g.peers) == 0 {
			continue
		}
		if err := admin.FlushAll(ctx).Err(); err != nil {
			return err
		}
		const callers = 100
		op, err := g.on(ctx, p.ours, callers)
		if err != nil {
			return err
		}
		cs, err := addPeers(ctx, []contender{{name: oursOnRedis, op: own(op)}}, g, p, callers)
		if err != nil {
			return err
		}
		alone := c
		alone.results = &benchmarks.Results{} // its rate is the latency once more
		samples, err := alone.compare(ctx, g.title, redisMeter(admin), 1, cs)
		if err != nil {
			return err
		}
		latencies := figures(samples, func(s sample) float64 { return s.p50.Seconds() * 1000 })
		for i, ct := range cs {
			c.record(benchmarks.Record{Title: g.title + ", p50", Size: c.grown, Callers: 1, Contender: ct.name, Unit: "ms", Rounds: latencies[i]})
		}
		if _, err := c.compare(ctx, g.title, redisMeter(admin), callers, cs); err != nil {
			return err
		}
	}
	return nil
}
