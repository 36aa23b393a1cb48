package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// peers are the clients of one measurement: each library has a go-redis client
// of its own with the defaults that its documentation uses, and one that merges
// commands by itself (experimental in go-redis), its best mode.
type peers struct {
	admin *redis.Client
	ours  *redoubt.Client
	plain *redis.Client
	auto  *redis.AutoPipeliner
	close func()
}

func newPeers(addr string) (*peers, error) {
	open := func() *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }
	p := &peers{admin: open(), plain: open()}
	mine, autoBase := open(), open()
	conn, err := goredis.Wrap(mine)
	if err != nil {
		return nil, err
	}
	if p.ours, err = redoubt.New(conn, redoubt.Options{}); err != nil {
		return nil, err
	}
	if p.auto, err = autoBase.AutoPipeline(); err != nil {
		return nil, err
	}
	p.close = func() {
		_ = p.ours.Close()
		_ = p.auto.Close()
		for _, c := range []*redis.Client{p.admin, p.plain, mine, autoBase} {
			_ = c.Close()
		}
	}
	return p, nil
}

func benchRateLimit(ctx context.Context, cfg config) error {
	server, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	p, err := newPeers(server.addr)
	if err != nil {
		return err
	}
	defer p.close()

	limits, err := ratelimit.New(p.ours, ratelimit.Options{Limit: ratelimit.Limit{Rate: 1_000_000, Period: time.Second, Burst: 1_000_000}})
	if err != nil {
		return err
	}
	limit := redis_rate.Limit{Rate: 1_000_000, Burst: 1_000_000, Period: time.Second}
	plain, auto := redis_rate.NewLimiter(p.plain), redis_rate.NewLimiter(p.auto)
	peer := func(l *redis_rate.Limiter) func(context.Context, int) error {
		return func(ctx context.Context, caller int) error {
			_, err := l.Allow(ctx, fmt.Sprint("peer:", caller), limit)
			return err
		}
	}
	ours := func(ctx context.Context, caller int) error {
		_, err := limits.Allow(ctx, fmt.Sprint("ours:", caller))
		return err
	}
	for _, callers := range cfg.callers {
		if err := cfg.compare(ctx, "allow", p.admin, callers, []contender{
			{name: "redoubt/ratelimit", op: ours},
			{name: "redis_rate", op: peer(plain)},
			{name: "redis_rate on AutoPipeline", op: peer(auto)},
			{name: "redoubt/ratelimit, ctx can end", op: ours, canEnd: true},
		}); err != nil {
			return err
		}
	}
	return nil
}
