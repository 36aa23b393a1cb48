package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A contender does one operation; caller tells its callers apart. Its ctx is
// context.Background(), as in the libraries' documentation, unless canEnd: then
// it can be cancelled, as a web request's can.
type contender struct {
	name   string
	class  string // what it is compared as; see compare
	op     func(ctx context.Context, caller int) error
	canEnd bool
}

// sample is one measurement.
type sample struct {
	perSecond float64
	p50, p99  time.Duration
	commands  float64 // commands on the server an operation, those of scripts included
	serverUS  float64 // the server's CPU an operation, µs
}

// compare measures every contender in turn, rounds times, and prints medians
// with the ratio to each peer, the median of those within a round: the first
// contender is ours. Last comes the ratio to the best of each class.
func (c config) compare(ctx context.Context, title string, rdb *redis.Client, callers int, cs []contender) error {
	samples := make([][]sample, len(cs))
	for round := range c.rounds {
		for i := range cs {
			k := (i + round) % len(cs) // nobody is always first
			c.progress("%s, %d callers, round %d of %d, %s", title, callers, round+1, c.rounds, cs[k].name)
			s, err := measure(ctx, rdb, callers, c.duration, cs[k])
			if err != nil {
				return fmt.Errorf("%s: %w", cs[k].name, err)
			}
			c.raw.Printf("raw\t%s\t%d callers\t%s\t%.0f op/s\tp50 %v\tp99 %v\t%.2f commands/op\t%.1f server us/op",
				title, callers, cs[k].name, s.perSecond, s.p50, s.p99, s.commands, s.serverUS)
			samples[k] = append(samples[k], s)
		}
	}
	c.progress("")
	best := map[string]float64{}
	for i, ct := range cs {
		rate := median(samples[i], func(s sample) float64 { return s.perSecond })
		ratios := make([]float64, c.rounds)
		for round := range ratios {
			ratios[round] = samples[0][round].perSecond / samples[i][round].perSecond
		}
		ratio := medianOf(ratios)
		if least, ok := best[ct.class]; ct.class != "" && (!ok || ratio < least) {
			best[ct.class] = ratio
		}
		c.printf("%-10s %4d callers  %-34s %9.0f op/s  p50 %8v  p99 %8v  %5.2f commands/op  %5.1f server us/op  ours/this %.2f",
			title, callers, ct.name, rate,
			time.Duration(median(samples[i], func(s sample) float64 { return float64(s.p50) })).Round(time.Microsecond),
			time.Duration(median(samples[i], func(s sample) float64 { return float64(s.p99) })).Round(time.Microsecond),
			median(samples[i], func(s sample) float64 { return s.commands }),
			median(samples[i], func(s sample) float64 { return s.serverUS }), ratio)
	}
	for _, class := range slices.Sorted(maps.Keys(best)) {
		c.printf("%-10s %4d callers  ours to the best of: %s: %.2f", title, callers, class, best[class])
	}
	return nil
}

func measure(ctx context.Context, rdb *redis.Client, callers int, d time.Duration, ct contender) (sample, error) {
	opCtx := context.Background()
	if ct.canEnd {
		var cancel context.CancelFunc
		opCtx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	for range 10 { // scripts are loaded, connections are open
		if err := ct.op(opCtx, 0); err != nil {
			return sample{}, err
		}
	}
	commands, cpu := serverWork(ctx, rdb)
	latencies := make([][]time.Duration, callers)
	errs := make([]error, callers)
	start := time.Now()
	end := start.Add(d)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				before := time.Now()
				if before.After(end) {
					return
				}
				if err := ct.op(opCtx, caller); err != nil {
					errs[caller] = err
					return
				}
				latencies[caller] = append(latencies[caller], time.Since(before))
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	commands2, cpu2 := serverWork(ctx, rdb)
	for _, err := range errs {
		if err != nil {
			return sample{}, err
		}
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	n := float64(len(all))
	return sample{
		perSecond: n / took.Seconds(),
		p50:       all[len(all)/2], p99: all[len(all)*99/100],
		commands: (commands2 - commands) / n,
		serverUS: (cpu2 - cpu) * 1e6 / n,
	}, nil
}

// serverWork reads how many commands the server has run and its CPU seconds.
func serverWork(ctx context.Context, rdb *redis.Client) (commands, cpu float64) {
	for line := range strings.Lines(rdb.Info(ctx, "stats", "cpu").Val()) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ":")
		f, _ := strconv.ParseFloat(v, 64)
		switch k {
		case "total_commands_processed":
			commands = f
		case "used_cpu_sys_main_thread", "used_cpu_user_main_thread":
			cpu += f
		}
	}
	return commands, cpu
}

func median[T any](samples []T, get func(T) float64) float64 {
	vs := make([]float64, len(samples))
	for i, s := range samples {
		vs[i] = get(s)
	}
	return medianOf(vs)
}

func medianOf(vs []float64) float64 {
	vs = slices.Sorted(slices.Values(vs))
	return vs[len(vs)/2]
}

// startRedis starts a redis-server on a free loopback port.
func startRedis(ctx context.Context) (t target, stop func(), err error) {
	if t.addr, err = freeAddr(ctx); err != nil {
		return target{}, nil, err
	}
	_, port, _ := net.SplitHostPort(t.addr)
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return target{}, nil, err
	}
	cmd := exec.CommandContext(ctx, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir)
	if err := cmd.Start(); err != nil {
		return target{}, nil, err
	}
	t.name, t.pid = "redis", cmd.Process.Pid
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	return t, stop, awaitPing(ctx, t.addr)
}

// freeAddr returns a loopback address that nobody listens on.
func freeAddr(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// awaitPing waits until a server answers.
func awaitPing(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	for {
		err := rdb.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer at %s: %w", addr, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
