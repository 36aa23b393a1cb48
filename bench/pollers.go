package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// benchPollers measures a small server on our poll loop, on the poll loops of others, and with a
// goroutine for each client. Beside them it measures redoubt serve on the engine, the real user of
// our loop.
func benchPollers(ctx context.Context, cfg config) error {
	serve, stop, err := startServe(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := fillForPollers(ctx, serve.addr); err != nil {
		return err
	}
	var all []target
	for _, s := range pollerServers {
		t, stop, err := startPollerServer(ctx, s.name)
		if err != nil {
			return err
		}
		defer stop()
		all = append(all, t)
	}
	serve.name = "redoubt serve, engine"
	all = append(all, serve)
	for _, pipeline := range []int{1, 16} {
		for _, w := range []workload{
			{title: "PING", words: []string{"PING"}},
			{title: "GET", words: []string{"GET", "key:__rand_int__"}},
		} {
			if err := cfg.comparePollers(ctx, w, load{50, pipeline}, all); err != nil {
				return err
			}
		}
	}
	return nil
}

// comparePollers measures all servers in turn. It prints medians, and the medians of the ratios to
// our loop within a round.
func (c config) comparePollers(ctx context.Context, w workload, l load, all []target) error {
	results := make([][]result, len(all))
	for round := range c.rounds {
		for i := range all {
			k := (i + round) % len(all) // another one is first in each round
			t := all[k]
			t.words = w.words
			c.progress("%s -c %d -P %d, round %d of %d, %s", w.title, l.clients, l.pipeline, round+1, c.rounds, t.name)
			r, err := c.redisBenchmark(ctx, t, l)
			if err != nil {
				return err
			}
			c.raw.Printf("raw\t%s\t-c %d -P %d\t%s\t%.0f/s\tp50 %s\tp99 %s ms\t%.2f us", w.title, l.clients, l.pipeline, t.name, r.perSecond, r.p50, r.p99, r.cpu)
			results[k] = append(results[k], r)
		}
	}
	c.progress("")
	names := namesOf(all, func(t target) string { return t.name })
	title := fmt.Sprintf("%s, pipeline of %d", w.title, l.pipeline)
	c.recordRounds(title, l.clients, "op/s", names, figures(results, func(r result) float64 { return r.perSecond }))
	c.recordRounds(title+", processor", l.clients, "us", names, figures(results, func(r result) float64 { return r.cpu }))
	for k, t := range all {
		var rates, cpus []float64
		for round, ours := range results[0] {
			this := results[k][round]
			rates, cpus = append(rates, ours.perSecond/this.perSecond), append(cpus, ours.cpu/this.cpu)
		}
		c.printf("%-5s -c %-3d -P %-2d  %-22s %8.0f/s  p99 %7.3f ms  %6.2f us/command  ours/this: rate %.2f, us/command %.2f",
			w.title, l.clients, l.pipeline, t.name, median(results[k], func(r result) float64 { return r.perSecond }),
			median(results[k], result.p99ms), median(results[k], func(r result) float64 { return r.cpu }), medianOf(rates), medianOf(cpus))
	}
	return nil
}

// startPollerServer starts a small server in a process of its own, so that its processor time is
// measured without the load's.
func startPollerServer(ctx context.Context, name string) (t target, stop func(), err error) {
	if t.addr, err = freeAddr(ctx); err != nil {
		return target{}, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return target{}, nil, err
	}
	cmd := exec.CommandContext(ctx, self) //nolint:gosec // this program
	cmd.Env = append(os.Environ(), workerPoller+"="+name, workerAddr+"="+t.addr)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return target{}, nil, err
	}
	t.name, t.pid = name, cmd.Process.Pid
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if err := awaitPing(ctx, t.addr); err != nil {
		stop()
		return target{}, nil, err
	}
	return t, stop, nil
}

// fillForPollers sets the keys that the small servers have.
func fillForPollers(ctx context.Context, addr string) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for n := range pollerKeys {
			p.Set(ctx, pollerKey(n), pollerValue(n), 0)
		}
		return nil
	})
	return err
}

// pollerKeys is how many keys redis-benchmark asks for; see redisBenchmark.
const pollerKeys = 10_000

// pollerKey returns a key that redis-benchmark makes from key:__rand_int__.
func pollerKey(n int) string {
	digits := strconv.Itoa(n)
	return "key:" + "000000000000"[len(digits):] + digits
}

func pollerValue(n int) string {
	const length = 64
	v := make([]byte, length)
	for i := range v {
		v[i] = 'a' + byte((n+i)%26)
	}
	return string(v)
}
