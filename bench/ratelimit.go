package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/ratelimit"
)

var limitCallers = []int{1, 16, 64, 256}

// benchRateLimit measures decisions of rate limiters, allowed and refused, for one name and for
// many: on redis-server, on redoubt serve with the embedded engine, and on the engine in this
// process. Then it measures decisions without a server, and how often a refused flood calls the
// server. It ends with the goals.
//
// It has so many measurements that each is short: all of it takes five minutes.
func benchRateLimit(ctx context.Context, cfg config) error {
	if !cfg.chosen {
		cfg.rounds, cfg.duration = 5, 170*time.Millisecond
	}
	var g goals
	for _, part := range []func(context.Context, config, *goals) error{
		limitsOnRedis, limitsOnServe, limitsInProcess, limitsLocally, refusedCalls,
	} {
		if err := part(ctx, cfg, &g); err != nil {
			return err
		}
	}
	g.print(cfg)
	return nil
}

// A limiterSet opens limiters for a flood.
type limiterSet func(f flood) ([]limiter, error)

// limitFloods measures all floods of limiters on one server. The first limiter is ours.
func (c config) limitFloods(ctx context.Context, where string, server meter, open limiterSet, g *goals) error {
	for _, f := range floods {
		ls, err := open(f)
		if err != nil {
			return err
		}
		if err := exhaust(ctx, ls, f); err != nil {
			return err
		}
		for _, names := range []int{1, manyNames} {
			for _, callers := range limitCallers {
				title := fmt.Sprintf("%s, %s, %d names", where, f.name, names)
				samples, err := c.compare(ctx, title, server, callers, contenders(ls, f, names, callers))
				if err != nil {
					return err
				}
				g.note(place{where, f.name, names, callers}, ls, samples)
			}
		}
	}
	return nil
}

func limitsOnRedis(ctx context.Context, cfg config, g *goals) error {
	server, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return cfg.limitsOn(ctx, onRedis, server, func(admin *redis.Client) meter { return redisMeter(admin) }, nil, g)
}

func limitsOnServe(ctx context.Context, cfg config, g *goals) error {
	server, stop, err := startServe(ctx)
	if err != nil {
		return err
	}
	defer stop()
	commands := func(admin *redis.Client) meter {
		ask := redisMeter(admin)
		return func(ctx context.Context) work {
			w := ask(ctx)
			w.cpu = cpuSeconds(server.pid)
			return w
		}
	}
	fewer := map[string]bool{"throttled on AutoPipeline": true, "ulule/limiter on AutoPipeline": true}
	return cfg.limitsOn(ctx, "serve", server, commands, fewer, g)
}

// limitsOn measures our limiters and the peers' limiters, except the ones in without, on a server.
func (c config) limitsOn(ctx context.Context, where string, server target, newMeter func(*redis.Client) meter, without map[string]bool, g *goals) error {
	p, err := newPeers(ctx, server.addr)
	if err != nil {
		return err
	}
	defer p.close()
	pipelining, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.addr}})
	if err != nil {
		return err
	}
	defer pipelining.Close()
	return c.limitFloods(ctx, where, newMeter(p.admin), func(f flood) ([]limiter, error) {
		all, err1 := ours(p.ours, f)
		theirs, err2 := limitersOfPeers(p, pipelining, f)
		for _, l := range theirs {
			if !without[l.name] {
				all = append(all, l)
			}
		}
		return all, errors.Join(err1, err2)
	}, g)
}

// limitsInProcess measures the engine in this process beside the favourite peer on
// a Redis over loopback: no peer has anything like it.
func limitsInProcess(ctx context.Context, cfg config, g *goals) error {
	p, err := startPeers(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	e, err := engine.Open(ctx, engine.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	client, err := redoubt.New(e, redoubt.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	return cfg.limitFloods(ctx, "in process", redisMeter(p.admin), func(f flood) ([]limiter, error) {
		all, err := ours(client, f)
		for i := range all {
			all[i].stride = localStride
		}
		return append(all, limiter{name: "redis_rate on Redis", class: asItComes, allow: redisRate(p.plain, f)}), err
	}, g)
}

// refusedCalls counts how many calls of a refused flood reach the server in spite of a DenyCache:
// one for each RetryAfter, and at most one a second.
func refusedCalls(ctx context.Context, cfg config, g *goals) error {
	p, err := startPeers(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	meter := redisMeter(p.admin)
	for _, limit := range []ratelimit.Limit{{Rate: 1, Period: time.Hour}, {Rate: 10, Period: time.Second, Burst: 1}} {
		l, err := ratelimit.New(p.ours, ratelimit.Options{Limit: limit, DenyCache: time.Second})
		if err != nil {
			return err
		}
		name := limit.Period.String()
		var allowed atomic.Int64
		op := func(ctx context.Context, _ int) error {
			d, err := l.Allow(ctx, name)
			if d.Allowed {
				allowed.Add(1)
			}
			return err
		}
		const callers = 64
		took := max(2*time.Second, cfg.duration)
		cfg.progress("calls of a flood that is refused, %d in %v", limit.Rate, limit.Period)
		start := time.Now()
		s, err := measure(ctx, meter, callers, took, contender{op: op, stride: localStride})
		if err != nil {
			return err
		}
		cfg.progress("")
		took = time.Since(start)
		every := min(limit.Period/time.Duration(limit.Rate), time.Second)
		calls := s.scripts*s.perSecond*took.Seconds() - float64(allowed.Load())
		most := 1 + float64(took)/float64(every)
		cfg.printf("a limit of %d in %v, DenyCache, %d callers: %.0f decisions/s, %d allowed, %.1f calls refused by the server in %v, of which one each %v are %.1f",
			limit.Rate, limit.Period, callers, s.perSecond, allowed.Load(), calls, took.Round(time.Millisecond), every, most)
		g.add(fmt.Sprintf("denied flood, %d in %v: calls to one each RetryAfter", limit.Rate, limit.Period), calls/most, atMost, 1)
	}
	return nil
}
