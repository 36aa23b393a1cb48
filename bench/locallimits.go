package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/redoubt-go/redoubt/internal/test/benchmarks"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// A localLimiter decides in this process, for one name or for many names. They begin with its
// prefix, because Limiters on one server share the tokens of a name.
type localLimiter struct {
	name, prefix string
	allow        func(name string) (bool, error)
	want         bool
}

// limitsLocally measures decisions made in this process, and their allocations, beside
// x/time/rate. They are decisions from leases, so large that calls for more tokens don't count, and
// known refusals.
func limitsLocally(ctx context.Context, cfg config, g *goals) error {
	p, err := startPeers(ctx)
	if err != nil {
		return err
	}
	defer p.close()

	const plenty = 1_000_000_000
	wide, err := ratelimit.New(p.ours, ratelimit.Options{Limit: ratelimit.PerSecond(plenty)})
	if err != nil {
		return err
	}
	leased, err := ratelimit.NewLeased(wide, ratelimit.LeasedOptions{Tokens: 100_000, TTL: time.Hour})
	if err != nil {
		return err
	}
	narrow, err := ratelimit.New(p.ours, ratelimit.Options{Limit: floods[1].limit(), DenyCache: time.Second})
	if err != nil {
		return err
	}
	oneByOne, err := ratelimit.NewLeased(narrow, ratelimit.LeasedOptions{})
	if err != nil {
		return err
	}
	by := func(allow func(context.Context, string) (ratelimit.Decision, error)) func(string) (bool, error) {
		return func(name string) (bool, error) {
			d, err := allow(ctx, name)
			return d.Allowed, err
		}
	}
	ls := []localLimiter{
		{"redoubt/ratelimit, Leased", "leased:", by(leased.Allow), true},
		{"redoubt/ratelimit, Leased, refused", "", by(oneByOne.Allow), false},
		{"redoubt/ratelimit, DenyCache", "", by(narrow.Allow), false},
		{"x/time/rate", "", rateByName(plenty, plenty), true},
		{"x/time/rate, refused", "", rateByName(1e-9, 1), false},
	}
	for _, names := range []int{1, manyNames} {
		for _, callers := range []int{1, runtime.GOMAXPROCS(0)} {
			samples, err := cfg.compareLocally(names, callers, ls)
			if err != nil {
				return err
			}
			if callers == 1 {
				g.add(fmt.Sprintf("local decision of leased tokens, ns, %d names", names), median(samples, func(s localSample) float64 { return s.ns }), atMost, 200)
				g.add(fmt.Sprintf("its allocations, %d names", names), median(samples, func(s localSample) float64 { return s.allocations }), atMost, 0.005)
			}
		}
	}
	return nil
}

// rateByName is x/time/rate with a map of limiters, as its users write it.
func rateByName(r rate.Limit, burst int) func(string) (bool, error) {
	var mu sync.RWMutex
	limiters := map[string]*rate.Limiter{}
	return func(name string) (bool, error) {
		mu.RLock()
		l := limiters[name]
		mu.RUnlock()
		if l == nil {
			mu.Lock()
			if l = limiters[name]; l == nil {
				l = rate.NewLimiter(r, burst)
				limiters[name] = l
			}
			mu.Unlock()
		}
		return l.Allow(), nil
	}
}

type localSample struct{ ns, allocations float64 }

// compareLocally measures limiters in turn, and returns the samples of the first.
func (c config) compareLocally(names, callers int, ls []localLimiter) ([]localSample, error) {
	samples := make([][]localSample, len(ls))
	for round := range c.rounds {
		for i := range ls {
			k := (i + round) % len(ls)
			l := ls[k]
			c.progress("local decisions, %d names, %d callers, round %d of %d, %s", names, callers, round+1, c.rounds, l.name)
			all := make([]string, names)
			for i := range all {
				all[i] = l.prefix + "user:" + strconv.Itoa(i)
			}
			for _, name := range all { // from now on calls are refused, or leases are there
				if _, err := l.allow(name); err != nil {
					return nil, fmt.Errorf("%s: %w", l.name, err)
				}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			perSecond, err := throughput(callers, c.duration, func(caller, i int) error {
				ok, err := l.allow(all[(caller*names/callers+i)%names])
				if err == nil && ok != l.want {
					err = fmt.Errorf("allowed is %v", ok)
				}
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.name, err)
			}
			runtime.ReadMemStats(&after)
			s := localSample{1e9 * float64(callers) / perSecond, float64(after.Mallocs-before.Mallocs) / perSecond / c.duration.Seconds()}
			c.raw.Printf("raw\tlocal, %d names\t%d callers\t%s\t%.1f ns\t%.4f allocations", names, callers, l.name, s.ns, s.allocations)
			samples[k] = append(samples[k], s)
		}
	}
	c.progress("")
	for i, l := range ls {
		what := "allowed"
		if !l.want {
			what = "refused"
		}
		c.record(benchmarks.Record{
			Title: fmt.Sprintf("in the process, %s, %d names", what, names), Callers: callers, Contender: strings.TrimSuffix(l.name, ", refused"), Unit: "ns",
			Rounds: figures(samples[i:i+1], func(s localSample) float64 { return s.ns })[0],
		})
		c.printf("local, %4d names  %4d callers  %-36s %7.1f ns  %.3f allocations", names, callers, l.name,
			median(samples[i], func(s localSample) float64 { return s.ns }), median(samples[i], func(s localSample) float64 { return s.allocations }))
	}
	return samples[0], nil
}
