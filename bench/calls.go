package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bitmap"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/geo"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/hll"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/stock"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// An operation is one use of a primitive by a caller, who has a name of its own.
type operation func(ctx context.Context, name string) error

// A use of a primitive makes its operation on a client.
type use struct {
	title string
	on    func(ctx context.Context, c *redoubt.Client) (operation, error)
}

// released ends what a call has taken.
func released(ctx context.Context, l *lock.Lease, err error) error {
	if err != nil {
		return err
	}
	return l.Release(ctx)
}

var uses = []use{
	{"GCRA", func(_ context.Context, c *redoubt.Client) (operation, error) {
		l, err := ratelimit.New(c, ratelimit.Options{Limit: ratelimit.PerSecond(1_000_000)})
		return func(ctx context.Context, name string) error { _, err := l.Allow(ctx, name); return err }, err
	}},
	{"sliding window", func(_ context.Context, c *redoubt.Client) (operation, error) {
		w, err := ratelimit.NewWindow(c, ratelimit.WindowOptions{Limit: ratelimit.PerSecond(100_000)})
		return func(ctx context.Context, name string) error { _, err := w.Allow(ctx, name); return err }, err
	}},
	{"quota", func(_ context.Context, c *redoubt.Client) (operation, error) {
		q, err := ratelimit.NewQuota(c, ratelimit.QuotaOptions{Allowance: ratelimit.Allowance{Calls: 1_000_000_000, Per: ratelimit.Day}})
		return func(ctx context.Context, name string) error { _, err := q.Allow(ctx, name); return err }, err
	}},
	{"concurrency limit", func(_ context.Context, c *redoubt.Client) (operation, error) {
		l, err := ratelimit.NewConcurrency(c, ratelimit.ConcurrencyOptions{Limit: 10})
		return func(ctx context.Context, name string) error {
			call, _, err := l.Begin(ctx, name)
			if err != nil {
				return err
			}
			return call.End(ctx)
		}, err
	}},
	{"lock", func(_ context.Context, c *redoubt.Client) (operation, error) {
		m, err := lock.New(c, lock.Options{})
		return func(ctx context.Context, name string) error {
			l, err := m.Acquire(ctx, name)
			return released(ctx, l, err)
		}, err
	}},
	{"fair lock", func(_ context.Context, c *redoubt.Client) (operation, error) {
		m, err := lock.New(c, lock.Options{Fair: true})
		return func(ctx context.Context, name string) error {
			l, err := m.Acquire(ctx, name)
			return released(ctx, l, err)
		}, err
	}},
	{"shared lock", func(_ context.Context, c *redoubt.Client) (operation, error) {
		m, err := lock.NewRWMutex(c, lock.RWMutexOptions{})
		return func(ctx context.Context, name string) error {
			l, err := m.AcquireShared(ctx, name)
			return released(ctx, l, err)
		}, err
	}},
	{"semaphore", func(_ context.Context, c *redoubt.Client) (operation, error) {
		s, err := lock.NewSemaphore(c, lock.SemaphoreOptions{})
		return func(ctx context.Context, name string) error {
			l, err := s.Acquire(ctx, name, 10)
			return released(ctx, l, err)
		}, err
	}},
	{"queue: put, handled", func(_ context.Context, c *redoubt.Client) (operation, error) {
		q, err := queue.New[string](c, queue.Options{})
		done := func(context.Context, *queue.Delivery[string]) error { return nil }
		return func(ctx context.Context, name string) error {
			if _, err := q.Put(ctx, name, "a message"); err != nil {
				return err
			}
			_, err := q.Work(ctx, name, done, queue.RunOptions{})
			return err
		}, err
	}},
	{"sale", func(ctx context.Context, c *redoubt.Client) (operation, error) {
		items, err := stock.New(c, stock.Options{})
		if err == nil {
			_, err = items.Set(ctx, "item", stock.MaxUnits)
		}
		return func(ctx context.Context, _ string) error {
			r, short, err := items.Reserve(ctx, "item", 1)
			if short != nil {
				err = errors.New("sold out")
			}
			if err != nil {
				return err
			}
			return items.Commit(ctx, "item", r.ID)
		}, err
	}},
	{"Bloom filter: add", func(ctx context.Context, c *redoubt.Client) (operation, error) {
		f, err := openFilter(ctx, c)
		return func(ctx context.Context, name string) error { _, err := f.Add(ctx, name); return err }, err
	}},
	{"Bloom filter: look up", func(ctx context.Context, c *redoubt.Client) (operation, error) {
		f, err := openFilter(ctx, c)
		return func(ctx context.Context, name string) error { _, err := f.MayContain(ctx, name); return err }, err
	}},
	{"bitmap: set", func(_ context.Context, c *redoubt.Client) (operation, error) {
		m, err := bitmap.New(c, bitmap.Options{})
		return func(ctx context.Context, name string) error { _, err := m.Set(ctx, name, 123_456); return err }, err
	}},
	{"record: increment", func(_ context.Context, c *redoubt.Client) (operation, error) {
		r, err := bitmap.NewRecords(c, bitmap.RecordOptions{Fields: []bitmap.Field{{Name: "seen", Type: "u32"}}})
		return func(ctx context.Context, name string) error { _, _, err := r.Incr(ctx, name, "seen", 1); return err }, err
	}},
	{"visitors: count", func(_ context.Context, c *redoubt.Client) (operation, error) {
		v, err := hll.New(c, hll.Options{})
		now := time.Now()
		return func(ctx context.Context, name string) error { _, err := v.Count(ctx, name, now); return err }, err
	}},
	{"geo: move", func(ctx context.Context, c *redoubt.Client) (operation, error) {
		x, err := openIndex(ctx, c)
		return func(ctx context.Context, name string) error {
			_, err := x.Add(ctx, name, geo.Point{Longitude: 13.4, Latitude: 52.5})
			return err
		}, err
	}},
	{"expiring hash: set", func(_ context.Context, c *redoubt.Client) (operation, error) {
		h, err := ttlhash.New(c, ttlhash.Options{})
		return func(ctx context.Context, name string) error { return h.Set(ctx, name, "field", "value", time.Hour) }, err
	}},
	{"expiring hash: get", func(ctx context.Context, c *redoubt.Client) (operation, error) {
		h, err := ttlhash.New(c, ttlhash.Options{})
		return func(ctx context.Context, name string) error { _, _, err := h.Get(ctx, name, "field"); return err }, err
	}},
}

func openFilter(ctx context.Context, c *redoubt.Client) (*bloom.Filter, error) {
	filters, err := bloom.New(c, bloom.Options{})
	if err != nil {
		return nil, err
	}
	return filters.Open(ctx, "filter", bloom.Spec{Capacity: 1_000_000, ErrorRate: .01})
}

func openIndex(ctx context.Context, c *redoubt.Client) (*geo.Index, error) {
	indexes, err := geo.New(c, geo.Options{})
	if err != nil {
		return nil, err
	}
	return indexes.Open(ctx, "index")
}

// benchCalls measures the operations of the primitives on an engine in this process beside the same library on a Redis
// over loopback.
func benchCalls(ctx context.Context, cfg config) error {
	server, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: server.addr})
	defer func() { _ = rdb.Close() }()
	conn, err := goredis.Wrap(rdb)
	if err != nil {
		return err
	}
	e, err := engine.Open(ctx, engine.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	names := make([]string, 256)
	for i := range names {
		names[i] = "caller:" + strconv.Itoa(i)
	}
	on := func(u use, conn redoubt.Conn) (func(ctx context.Context, caller int) error, error) {
		client, err := redoubt.New(conn, redoubt.Options{})
		if err != nil {
			return nil, err
		}
		op, err := u.on(ctx, client)
		return func(ctx context.Context, caller int) error { return op(ctx, names[caller]) }, err
	}
	for _, u := range uses {
		inProcess, err1 := on(u, e)
		loopback, err2 := on(u, conn)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		for _, callers := range []int{1, 256} {
			if _, err := cfg.compare(ctx, u.title, redisMeter(rdb), callers, []contender{
				{name: "engine in process", op: inProcess},
				{name: "Redis over loopback", op: loopback},
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
