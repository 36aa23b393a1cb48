package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// A limiter is a library with one limit for all names.
type limiter struct {
	name, class string
	allow       func(ctx context.Context, name string) (bool, error)
	stride      int // see contender
}

// A flood is callers that ask as fast as they can.
type flood struct {
	name    string
	allowed bool
	rate    int // tokens per period, all in one burst
	period  time.Duration
}

var floods = []flood{
	{"allowed", true, 1_000_000, time.Second},
	{"denied", false, 1, time.Hour},
}

func (f flood) limit() ratelimit.Limit { return ratelimit.Limit{Rate: f.rate, Period: f.period} }

// localStride is the stride of limiters that mostly answer within the process. It has no factor in
// common with the size of a lease, so that the timed calls are a fair sample.
const localStride = 17

// leaseTokens is the number of tokens of a lease.
const leaseTokens = 100

// ours are our limiters: the exact one, and for each flood the one that saves round trips.
func ours(client *redoubt.Client, f flood) ([]limiter, error) {
	exact, err := ratelimit.New(client, ratelimit.Options{Limit: f.limit()})
	if err != nil {
		return nil, err
	}
	all := []limiter{{name: "redoubt/ratelimit", allow: func(ctx context.Context, name string) (bool, error) {
		d, err := exact.Allow(ctx, name)
		return d.Allowed, err
	}}}
	if !f.allowed {
		cached, err := ratelimit.New(client, ratelimit.Options{Limit: f.limit(), DenyCache: time.Second})
		return append(all, limiter{name: "redoubt/ratelimit, DenyCache", stride: localStride, allow: func(ctx context.Context, name string) (bool, error) {
			d, err := cached.Allow(ctx, name)
			return d.Allowed, err
		}}), err
	}
	// More than a lease gives out in a measurement, and on names of its own.
	wide, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerSecond(100 * f.rate)})
	if err != nil {
		return nil, err
	}
	leased, err := ratelimit.NewLeased(wide, ratelimit.LeasedOptions{Tokens: leaseTokens})
	return append(all, limiter{name: "redoubt/ratelimit, Leased", stride: localStride, allow: func(ctx context.Context, name string) (bool, error) {
		d, err := leased.Allow(ctx, "leased:"+name)
		return d.Allowed, err
	}}), err
}

// limitersOfPeers follow their documentation, each on its fastest client.
func limitersOfPeers(p *peers, pipelining rueidis.Client, f flood) ([]limiter, error) {
	all := []limiter{
		{name: "redis_rate", class: asItComes, allow: redisRate(p.plain, f)},
		{name: "redis_rate on AutoPipeline", class: pipelined, allow: redisRate(p.auto, f)},
		{name: "fixed window on rueidis", class: pipelined, allow: onRueidis(pipelining, f)},
	}
	for _, on := range []struct {
		suffix, class string
		client        redis.UniversalClient
	}{{"", asItComes, p.plain}, {" on AutoPipeline", pipelined, p.auto}} {
		gcra, err1 := throttledGCRA(on.client, f)
		window, err2 := ululeWindow(on.client, f)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		all = append(all,
			limiter{name: "throttled" + on.suffix, class: on.class, allow: gcra},
			limiter{name: "ulule/limiter" + on.suffix, class: on.class, allow: window})
	}
	return all, nil
}

func redisRate(on interface {
	redis.Scripter
	Del(ctx context.Context, keys ...string) *redis.IntCmd
}, f flood) func(context.Context, string) (bool, error) {
	limiter := redis_rate.NewLimiter(on)
	limit := redis_rate.Limit{Rate: f.rate, Burst: f.rate, Period: f.period}
	return func(ctx context.Context, name string) (bool, error) {
		r, err := limiter.Allow(ctx, name, limit)
		return err == nil && r.Allowed > 0, err
	}
}

func throttledGCRA(on redis.UniversalClient, f flood) (func(context.Context, string) (bool, error), error) {
	store, err := throttledredis.NewCtx(on, "throttled:")
	if err != nil {
		return nil, err
	}
	rate := throttled.PerDuration(f.rate, f.period)
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: rate, MaxBurst: f.rate - 1})
	return func(ctx context.Context, name string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, name, 1)
		if err != nil && strings.HasPrefix(err.Error(), "Failed to store updated rate limit data") {
			// It uses compare-and-swap, and gives up after ten lost races.
			err = errUndecided
		}
		return !limited, err
	}, err
}

func ululeWindow(on ululeredis.Client, f flood) (func(context.Context, string) (bool, error), error) {
	store, err := ululeredis.NewStore(on)
	limiter := ulule.New(store, ulule.Rate{Period: f.period, Limit: int64(f.rate)})
	return func(ctx context.Context, name string) (bool, error) {
		c, err := limiter.Get(ctx, name)
		return !c.Reached, err
	}, err
}

// onRueidis replaces rueidislimiter, whose module the Go proxy does not have. It sends the same
// commands on the same client: one key has a count, another the end of the window.
func onRueidis(c rueidis.Client, f flood) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, name string) (bool, error) {
		key, now := "rueidis:{"+name+"}", time.Now()
		r, err := windowOnRueidis.Exec(ctx, c, []string{key, key + ":until"},
			[]string{"1", strconv.FormatInt(now.UnixMilli(), 10), strconv.FormatInt(now.Add(f.period).UnixMilli(), 10)}).AsIntSlice()
		if err != nil || len(r) != 2 {
			return false, errors.Join(err, fmt.Errorf("%d numbers, want 2", len(r)))
		}
		return r[0] <= int64(f.rate), nil
	}
}

var windowOnRueidis = rueidis.NewLuaScript(`
local ends = tonumber(redis.call('GET', KEYS[2]))
if not ends or ends < tonumber(ARGV[2]) then
  ends = tonumber(ARGV[3])
  redis.call('SET', KEYS[1], 0, 'PXAT', ARGV[3])
  redis.call('SET', KEYS[2], ARGV[3], 'PXAT', ARGV[3])
end
return {redis.call('INCRBY', KEYS[1], ARGV[1]), ends}`)

// manyNames is the number of names in the tests with many names.
const manyNames = 1024

// contenders returns the limiters to measure. Their callers all use one name, or go through many
// names, each from another start and in other steps. In equal steps the callers that wait for a name
// would gather and go on together, as with one name.
func contenders(ls []limiter, f flood, names, callers int) []contender {
	all := make([]string, names)
	for i := range all {
		all[i] = "user:" + strconv.Itoa(i)
	}
	cs := make([]contender, len(ls))
	for i, l := range ls {
		// One on each cache line.
		next := make([]struct {
			n int
			_ [56]byte
		}, callers)
		for c := range next {
			next[c].n = c * names / callers
		}
		prefix := f.name + ":"
		mine := make([]string, names)
		for i := range mine {
			mine[i] = prefix + all[i]
		}
		cs[i] = contender{name: l.name, class: l.class, stride: l.stride, op: func(ctx context.Context, caller int) error {
			n := &next[caller].n
			*n += 2*caller + 1
			allowed, err := l.allow(ctx, mine[*n%names])
			if err == nil && allowed != f.allowed {
				err = fmt.Errorf("allowed is %v in a flood that is %s", allowed, f.name)
			}
			return err
		}}
	}
	return cs
}

// exhaust takes the only token of every name, so that all later calls are refused.
func exhaust(ctx context.Context, ls []limiter, f flood) error {
	if f.allowed {
		return nil
	}
	for _, l := range ls {
		var wg sync.WaitGroup
		const callers = 32
		errs := make([]error, callers)
		for caller := range callers {
			wg.Go(func() {
				for i := caller; i < manyNames && errs[caller] == nil; i += callers {
					_, errs[caller] = l.allow(ctx, f.name+":user:"+strconv.Itoa(i))
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}
