//go:build cachepeers

// These are not on every module proxy, so only a build that asks for them has them:
//
//	go get github.com/mgtv-tech/jetcache-go@v1.2.6 github.com/redis/rueidis/rueidisaside@v1.0.76
//	go get github.com/eko/gocache/lib/v4@v4.2.3 github.com/eko/gocache/store/redis/v4@v4.2.6 github.com/eko/gocache/store/ristretto/v4@v4.3.2
//	go get github.com/bytedance/sonic@latest # of jetcache-go, for a Go newer than its own
//	go run -tags cachepeers . -suite cache

package main

import (
	"context"
	"time"

	"github.com/dgraph-io/ristretto/v2"
	gocache "github.com/eko/gocache/lib/v4/cache"
	"github.com/eko/gocache/lib/v4/store"
	redisstore "github.com/eko/gocache/store/redis/v4"
	ristrettostore "github.com/eko/gocache/store/ristretto/v4"
	jetcache "github.com/mgtv-tech/jetcache-go"
	"github.com/mgtv-tech/jetcache-go/local"
	"github.com/mgtv-tech/jetcache-go/remote"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidisaside"
)

func init() {
	cacheLibraries = append(cacheLibraries,
		cacheLibrary{"jetcache-go", openJetcache(false, false)},
		cacheLibrary{"jetcache-go, AutoPipeline", openJetcache(true, false)},
		cacheLibrary{"jetcache-go, refresh", openJetcache(false, true)},
		cacheLibrary{"rueidisaside", openAside},
		cacheLibrary{"gocache", openGocache(false)},
		cacheLibrary{"gocache, AutoPipeline", openGocache(true)},
	)
}

// openJetcache is set up as in its quick start; refresh is what its "Best
// practices" name for a few keys whose loads are expensive.
func openJetcache(auto, refresh bool) func(s cacheSetup) (cacheUser, error) {
	return func(s cacheSetup) (cacheUser, error) {
		rdb := redis.NewClient(&redis.Options{Addr: s.addr})
		var cmds redis.Cmdable = rdb
		end := func() { _ = rdb.Close() }
		if auto {
			p, err := rdb.AutoPipeline()
			if err != nil {
				return cacheUser{}, err
			}
			cmds, end = p, func() {
				_ = p.Close()
				_ = rdb.Close()
			}
		}
		o := []jetcache.Option{jetcache.WithName("bench"), jetcache.WithRemote(remote.NewGoRedisV9Adapter(cmds)), jetcache.WithRemoteExpiry(s.ttl), jetcache.WithStatsDisabled(true)}
		if s.local > 0 {
			o = append(o, jetcache.WithLocal(local.NewTinyLFU(s.local, time.Minute)))
		}
		if refresh {
			o = append(o, jetcache.WithRefreshDuration(max(s.ttl/2, time.Second)), jetcache.WithStopRefreshAfterLastAccess(s.ttl))
		}
		c := jetcache.New(o...)
		return cacheUser{
			get: func(ctx context.Context, key string) (v string, err error) {
				err = c.Once(ctx, key, jetcache.Value(&v), jetcache.Refresh(refresh), jetcache.Do(func(ctx context.Context) (any, error) {
					return s.load(ctx, key)
				}))
				return v, err
			},
			close: func() {
				c.Close()
				end()
			},
		}, nil
	}
}

// openAside has a local level. Without one, a process doesn't learn what another has loaded.
func openAside(s cacheSetup) (cacheUser, error) {
	c, err := rueidisaside.NewClient(rueidisaside.ClientOption{ClientOption: rueidis.ClientOption{InitAddress: []string{s.addr}, DisableCache: s.remote}})
	if err != nil {
		return cacheUser{}, err
	}
	return cacheUser{
		get:   func(ctx context.Context, key string) (string, error) { return c.Get(ctx, s.ttl, key, s.load) },
		close: c.Close,
	}, nil
}

// openGocache is the loadable cache of its README, on a chain if there is a local level.
func openGocache(auto bool) func(s cacheSetup) (cacheUser, error) {
	return func(s cacheSetup) (cacheUser, error) {
		rdb := redis.NewClient(&redis.Options{Addr: s.addr})
		var client redisstore.RedisClientInterface = rdb
		end := func() { _ = rdb.Close() }
		if auto {
			p, err := rdb.AutoPipeline()
			if err != nil {
				return cacheUser{}, err
			}
			client, end = p, func() {
				_ = p.Close()
				_ = rdb.Close()
			}
		}
		var base gocache.CacheInterface[any] = gocache.New[any](redisstore.NewRedis(client, store.WithExpiration(s.ttl)))
		if s.local > 0 {
			near, err := ristretto.NewCache(&ristretto.Config[string, any]{NumCounters: int64(10 * s.local), MaxCost: int64(s.local), BufferItems: 64})
			if err != nil {
				return cacheUser{}, err
			}
			base = gocache.NewChain[any](gocache.New[any](ristrettostore.NewRistretto(near, store.WithCost(1), store.WithExpiration(s.ttl))), base.(gocache.SetterCacheInterface[any]))
		}
		c := gocache.NewLoadable(func(ctx context.Context, key any) (any, []store.Option, error) {
			v, err := s.load(ctx, key.(string))
			return v, nil, err
		}, base)
		return cacheUser{
			get: func(ctx context.Context, key string) (string, error) {
				v, err := c.Get(ctx, key)
				text, _ := v.(string)
				return text, err
			},
			close: func() {
				_ = c.Close()
				end()
			},
		}, nil
	}
}
