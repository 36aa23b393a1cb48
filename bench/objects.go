package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	rediscache "github.com/go-redis/cache/v9"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/bitmap"
	"github.com/redoubt-go/redoubt/bloom"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/hll"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/stock"
	"github.com/redoubt-go/redoubt/ttlhash"
)

// objectsMade is how many objects of a kind are made: their index and their registry count for each of them.
const objectsMade = 1000

// An object is what one name, message, member or field of a primitive keeps on the server. Both functions make the
// object with a number; theirs is nil if no peer has such an object.
type object struct {
	title  string
	ours   func(ctx context.Context, c *redoubt.Client) (func(i int) error, error)
	theirs func(ctx context.Context, p *peers) func(i int) error
}

// each writes a name for every object.
func each(prefix string, i int) string { return prefix + strconv.Itoa(i) }

var objects = []object{
	{"a limit's name, beside redis_rate", func(ctx context.Context, c *redoubt.Client) (func(int) error, error) {
		l, err := ratelimit.New(c, ratelimit.Options{Limit: hourly})
		return func(i int) error { _, err := l.AllowN(ctx, each("user:", i), hourly.Rate/2); return err }, err
	}, func(ctx context.Context, p *peers) func(int) error {
		allow := redisRate(p.plain, floods[0])
		return func(i int) error { _, err := allow(ctx, each("user:", i)); return err }
	}},
	{"a lock that is held, beside redislock", func(ctx context.Context, c *redoubt.Client) (func(int) error, error) {
		m, err := lock.New(c, lock.Options{TTL: time.Hour})
		return func(i int) error { _, err := m.Acquire(ctx, each("lock:", i)); return err }, err
	}, func(ctx context.Context, p *peers) func(int) error {
		locks := redislock.New(p.plain)
		return func(i int) error { _, err := locks.Obtain(ctx, each("lock:", i), time.Hour, nil); return err }
	}},
	{"a shared lock that one holds", func(ctx context.Context, c *redoubt.Client) (func(int) error, error) {
		m, err := lock.NewRWMutex(c, lock.RWMutexOptions{TTL: time.Hour})
		return func(i int) error { _, err := m.AcquireShared(ctx, each("lock:", i)); return err }, err
	}, nil},
	{"a semaphore that one holds", func(ctx context.Context, c *redoubt.Client) (func(int) error, error) {
		s, err := lock.NewSemaphore(c, lock.SemaphoreOptions{TTL: time.Hour})
		return func(i int) error { _, err := s.Acquire(ctx, each("sem:", i), 10); return err }, err
	}, nil},
	{"a message of 100 bytes, beside asynq", func(ctx context.Context, c *redoubt.Client) (func(int) error, error) {
		q, err := queue.New[[]byte](c, queue.Options{Codec: queue.Bytes{}})
		text := []byte(payload(time.Now()))
		return func(int) error { _, err := q.Put(ctx, queueName, text); return err }, err
	}, func(ctx context.Context, p *peers) func(int) error {
		client, text := asynq.NewClientFromRedisClient(p.plain), []byte(payload(time.Now()))
		return func(int) error { _, err := client.EnqueueContext(ctx, asynq.NewTask("t", text)); return err }
	}},
	{"an item with a reservation", func(ctx context.Context, c *redoubt.Client) (func(int) error, error) {
		items, err := stock.New(c, stock.Options{})
		return func(i int) error {
			if _, err := items.Set(ctx, each("item:", i), 100); err != nil {
				return err
			}
			_, _, err := items.Reserve(ctx, each("item:", i), 1)
			return err
		}, err
	}, nil},
	{"a cached value of 100 bytes, beside go-redis/cache", func(ctx context.Context, c *redoubt.Client) (func(int) error, error) {
		users, err := cache.New(c, cache.Options[string, string]{Name: "objects", TTL: time.Hour, Codec: cache.Text()})
		return func(i int) error { return users.Set(ctx, cachedKey(i), cachedValue) }, err
	}, func(ctx context.Context, p *peers) func(int) error {
		c := rediscache.New(&rediscache.Options{Redis: p.plain})
		return func(i int) error {
			return c.Set(&rediscache.Item{Ctx: ctx, Key: cachedKey(i), Value: cachedValue, TTL: time.Hour})
		}
	}},
	{"a Bloom filter of 10,000 items, beside one string", func(ctx context.Context, c *redoubt.Client) (func(int) error, error) {
		filters, err := bloom.New(c, bloom.Options{})
		return func(i int) error {
			_, err := filters.Open(ctx, each("filter:", i), bloom.Spec{Capacity: 10_000, ErrorRate: bloomRate})
			return err
		}, err
	}, func(ctx context.Context, p *peers) func(int) error {
		return func(i int) error { return p.plain.SetBit(ctx, each("filter:", i), 95_851, 1).Err() } // a classic filter's size
	}},
	{"a bitmap of 100,000 bits, beside SETBIT", func(ctx context.Context, c *redoubt.Client) (func(int) error, error) {
		m, err := bitmap.New(c, bitmap.Options{})
		return func(i int) error { _, err := m.Set(ctx, each("map:", i), 99_999); return err }, err
	}, func(ctx context.Context, p *peers) func(int) error {
		return func(i int) error { return p.plain.SetBit(ctx, each("map:", i), 99_999, 1).Err() }
	}},
	{"a page with 1 visitor, beside PFADD", func(ctx context.Context, c *redoubt.Client) (func(int) error, error) {
		v, err := hll.New(c, hll.Options{})
		return func(i int) error {
			err := v.Add(each("page:", i), "somebody")
			if err == nil && i == objectsMade-1 {
				err = v.Close() // it sends what it has gathered
			}
			return err
		}, err
	}, func(ctx context.Context, p *peers) func(int) error {
		return func(i int) error { return p.plain.PFAdd(ctx, each("page:", i), "somebody").Err() }
	}},
	{"a member of an index, beside GEOADD", func(ctx context.Context, c *redoubt.Client) (func(int) error, error) {
		x, err := openIndex(ctx, c)
		return func(i int) error { _, err := x.Add(ctx, each("member:", i), somewhere()); return err }, err
	}, func(ctx context.Context, p *peers) func(int) error {
		return func(i int) error {
			at := somewhere()
			return p.plain.GeoAdd(ctx, geoOne, &redis.GeoLocation{Name: each("member:", i), Longitude: at.Longitude, Latitude: at.Latitude}).Err()
		}
	}},
	{"a field of an expiring hash, beside SET PX", func(ctx context.Context, c *redoubt.Client) (func(int) error, error) {
		h, err := ttlhash.New(c, ttlhash.Options{})
		return func(i int) error { return h.Set(ctx, "hash", hashField(i), cachedValue, time.Hour) }, err
	}, func(ctx context.Context, p *peers) func(int) error {
		return func(i int) error { return p.plain.Set(ctx, hashField(i), cachedValue, time.Hour).Err() }
	}},
}

// measureObjects asks both servers how many bytes the keys of one object take.
func measureObjects(ctx context.Context, cfg config) error {
	for _, o := range objects {
		cfg.progress("memory: %s", o.title)
		if err := cfg.measureObject(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", o.title, err)
		}
	}
	cfg.progress("")
	return nil
}

func (c config) measureObject(ctx context.Context, o object) error {
	p, onEngine, e, stop, err := bothServers(ctx)
	if err != nil {
		return err
	}
	defer stop()
	onRedis, err1 := o.ours(ctx, p.ours)
	inProcess, err2 := o.ours(ctx, onEngine)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	mine, err1 := objectBytes(onRedis, func(cmd redoubt.Cmd) redoubt.Reply { return p.ours.Do(ctx, cmd) })
	local, err2 := objectBytes(inProcess, func(cmd redoubt.Cmd) redoubt.Reply { return e.Do(ctx, cmd) })
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	c.recordOnce(o.title, 0, "B", oursOnRedis, mine)
	c.recordOnce(o.title, 0, "B", oursOnEngine, local)
	line := fmt.Sprintf("bytes of %-52s on Redis %6.0f, on the engine %6.0f", o.title, mine, local)
	if o.theirs != nil {
		if err := p.admin.FlushAll(ctx).Err(); err != nil {
			return err
		}
		theirs, err := objectBytes(o.theirs(ctx, p), func(cmd redoubt.Cmd) redoubt.Reply { return p.ours.Do(ctx, cmd) })
		if err != nil {
			return err
		}
		c.recordOnce(o.title, 0, "B", "the peer", theirs)
		line += fmt.Sprintf(", the peer %6.0f", theirs)
	}
	c.progress("")
	c.printf("%s", line)
	return nil
}

// objectBytes makes objects, and returns the memory of all keys for each of them.
func objectBytes(add func(i int) error, do func(redoubt.Cmd) redoubt.Reply) (float64, error) {
	for i := range objectsMade {
		if err := add(i); err != nil {
			return 0, err
		}
	}
	keys, err := do(redoubt.Cmd{Name: "KEYS", Args: []string{"*"}}).Array()
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	for _, key := range keys {
		n, err := do(redoubt.Cmd{Name: "MEMORY USAGE", Keys: []string{key.(string)}, Args: []string{"SAMPLES", "0"}}).Int()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	if sum == 0 {
		return 0, errors.New("no keys")
	}
	return float64(sum) / objectsMade, nil
}
