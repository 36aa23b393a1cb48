package main

import (
	"context"
	"errors"
	"time"

	rediscache "github.com/go-redis/cache/v9"
	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/goredis"
)

// A cacheLibrary reads through a cache. cachepeers.go has more of them.
type cacheLibrary struct {
	name string
	open func(s cacheSetup) (cacheUser, error)
}

// A cacheSetup is what one process wants. Values are text of 100 bytes.
type cacheSetup struct {
	addr   string
	local  int  // entries in the process; 0: no local level
	remote bool // every read must come from the server
	ttl    time.Duration
	load   func(ctx context.Context, key string) (string, error)
}

type cacheUser struct {
	get   func(ctx context.Context, key string) (string, error)
	close func()
}

var cacheLibraries = []cacheLibrary{
	{"redoubt/cache", openCache(func(*cache.Options[string, string]) {})},
	{"redoubt/cache, StaleFor", openCache(func(o *cache.Options[string, string]) { o.StaleFor = time.Minute })},
	{"go-redis/cache", openRedisCache(false)},
	{"go-redis/cache, AutoPipeline", openRedisCache(true)},
}

var errNone = errors.New("the source has it")

func openCache(change func(o *cache.Options[string, string])) func(s cacheSetup) (cacheUser, error) {
	return func(s cacheSetup) (cacheUser, error) {
		conn, err := goredis.Open(context.Background(), "redis://"+s.addr)
		if err != nil {
			return cacheUser{}, err
		}
		client, err := redoubt.New(conn, redoubt.Options{})
		if err != nil {
			return cacheUser{}, err
		}
		o := cache.Options[string, string]{Name: "bench", TTL: s.ttl, Codec: cache.Text(), Local: s.local}
		if s.local > 0 {
			o.LocalTTL = s.ttl
		}
		change(&o)
		c, err := cache.New(client, o)
		if err != nil {
			return cacheUser{}, err
		}
		load := func(ctx context.Context, key string) (string, bool, error) {
			v, err := s.load(ctx, key)
			return v, true, err
		}
		return cacheUser{
			get: func(ctx context.Context, key string) (string, error) {
				v, found, err := c.Get(ctx, key, load)
				if err == nil && !found {
					err = errNone
				}
				return v, err
			},
			close: func() {
				_ = c.Close()
				_ = client.Close()
				_ = conn.Close()
			},
		}, nil
	}
}

// openRedisCache is set up as in its README: Once with a TTL, and TinyLFU in the process.
func openRedisCache(auto bool) func(s cacheSetup) (cacheUser, error) {
	return func(s cacheSetup) (cacheUser, error) {
		rdb := redis.NewClient(&redis.Options{Addr: s.addr})
		o := rediscache.Options{Redis: rdb}
		end := func() { _ = rdb.Close() }
		if auto {
			p, err := rdb.AutoPipeline()
			if err != nil {
				return cacheUser{}, err
			}
			o.Redis = p
			end = func() {
				_ = p.Close()
				_ = rdb.Close()
			}
		}
		if s.local > 0 {
			o.LocalCache = rediscache.NewTinyLFU(s.local, time.Minute)
		}
		c := rediscache.New(&o)
		return cacheUser{
			get: func(ctx context.Context, key string) (v string, err error) {
				err = c.Once(&rediscache.Item{Ctx: ctx, Key: key, Value: &v, TTL: s.ttl, Do: func(*rediscache.Item) (any, error) {
					return s.load(ctx, key)
				}})
				return v, err
			},
			close: end,
		}, nil
	}
}
