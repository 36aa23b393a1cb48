package main

import (
	"context"
	"errors"
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

	"github.com/redoubt-go/redoubt/internal/test/benchmarks"
)

// A contender does one operation; caller tells its callers apart. Its ctx is
// context.Background(), as in the libraries' documentation, unless canEnd: then
// it can be cancelled, as a web request's can.
type contender struct {
	name   string
	class  string // the class that it is compared in; see compare
	op     func(ctx context.Context, caller int) error
	canEnd bool
	before func(ctx context.Context) error // each measurement, if it is set
	stride int                             // every stride-th call is timed, because reading the clock takes a large part of a call; 0: all
}

// errUndecided is the error of an operation that the library gave up. It is counted, but not in
// the operations per second.
var errUndecided = errors.New("not done")

// sample is one measurement.
type sample struct {
	perSecond float64
	p50, p99  time.Duration
	commands  float64 // commands on the server an operation, inside scripts too
	scripts   float64 // scripts an operation
	serverUS  float64 // the server's CPU an operation, µs
	undecided float64 // calls that ended in errUndecided, of all
}

// compare measures every contender in turn, rounds times, and prints medians
// with the ratio to each peer, the median of those within a round: the first
// contender is ours. Last comes the ratio to the best of each class. It returns the
// samples of each contender, by round.
func (c config) compare(ctx context.Context, title string, server meter, callers int, cs []contender) ([][]sample, error) {
	samples := make([][]sample, len(cs))
	for round := range c.rounds {
		for i := range cs {
			k := (i + round) % len(cs) // another one is first in each round
			c.progress("%s, %d callers, round %d of %d, %s", title, callers, round+1, c.rounds, cs[k].name)
			s, err := measure(ctx, server, callers, c.duration, cs[k])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", cs[k].name, err)
			}
			c.raw.Printf("raw\t%s\t%d callers\t%s\t%.0f op/s\tp50 %v\tp99 %v\t%.3f commands/op\t%.3f scripts/op\t%.2f server us/op\t%.1f%% undecided",
				title, callers, cs[k].name, s.perSecond, s.p50, s.p99, s.commands, s.scripts, s.serverUS, 100*s.undecided)
			samples[k] = append(samples[k], s)
		}
	}
	c.progress("")
	for i, ct := range cs {
		of := func(get func(sample) float64) float64 { return median(samples[i], get) }
		c.record(benchmarks.Record{
			Title: title, Size: c.grown, Callers: callers, Contender: ct.name, Unit: "op/s", Rounds: figures(samples[i:i+1], rateOf)[0],
			Commands: of(func(s sample) float64 { return s.commands }), Scripts: of(func(s sample) float64 { return s.scripts }),
			P50: of(func(s sample) float64 { return float64(s.p50) / 1e3 }), P99: of(func(s sample) float64 { return float64(s.p99) / 1e3 }),
		})
	}
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
		undecided := ""
		if u := median(samples[i], func(s sample) float64 { return s.undecided }); u > 0 {
			undecided = fmt.Sprintf("  undecided %.1f%%", 100*u)
		}
		c.printf("%-10s %4d callers  %-34s %9.0f op/s  p50 %8v  p99 %8v  %6.3f commands/op %6.3f scripts/op %6.2f server us/op  ours/this %.2f%s",
			title, callers, ct.name, rate,
			time.Duration(median(samples[i], func(s sample) float64 { return float64(s.p50) })).Round(100*time.Nanosecond),
			time.Duration(median(samples[i], func(s sample) float64 { return float64(s.p99) })).Round(100*time.Nanosecond),
			median(samples[i], func(s sample) float64 { return s.commands }),
			median(samples[i], func(s sample) float64 { return s.scripts }),
			median(samples[i], func(s sample) float64 { return s.serverUS }), ratio, undecided)
	}
	for _, class := range slices.Sorted(maps.Keys(best)) {
		c.printf("%-10s %4d callers  ours to the best of: %s: %.2f", title, callers, class, best[class])
	}
	return samples, nil
}

// patience bounds a call: a library that hangs must not end a run of hours. Its round counts as nothing done.
const patience = 30 * time.Second

func measure(ctx context.Context, server meter, callers int, d time.Duration, ct contender) (sample, error) {
	opCtx := context.Background()
	if ct.canEnd {
		var cancel context.CancelFunc
		opCtx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	if ct.before != nil {
		if err := ct.before(ctx); err != nil {
			return sample{}, err
		}
	}
	for range 10 { // scripts are loaded, connections are open
		if err := ct.op(opCtx, 0); err != nil && !errors.Is(err, errUndecided) {
			return sample{}, err
		}
	}
	before := server(ctx)
	latencies := make([][]time.Duration, callers)
	dones, undones := make([]int, callers), make([]int, callers)
	errs := make([]error, callers)
	start := time.Now()
	end := start.Add(d)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			done, undone := 0, 0
			defer func() { dones[caller], undones[caller] = done, undone }()
			for i := 0; ctx.Err() == nil; i++ {
				var before time.Time
				timed := ct.stride == 0 || i%ct.stride == 0
				if timed {
					if before = time.Now(); i > 0 && before.After(end) { // once at least, on a machine that stalls
						return
					}
				}
				switch err := ct.op(opCtx, caller); {
				case errors.Is(err, errUndecided):
					undone++
				case err != nil:
					errs[caller] = err
					return
				default:
					done++
				}
				if timed {
					latencies[caller] = append(latencies[caller], time.Since(before))
				}
			}
		})
	}
	all := make(chan struct{})
	go func() {
		wg.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(d + patience):
		return sample{undecided: 1}, nil
	}
	took := time.Since(start)
	after := server(ctx)
	for _, err := range errs {
		if err != nil {
			return sample{}, err
		}
	}
	sorted := slices.Concat(latencies...)
	slices.Sort(sorted)
	n, undone := 0., 0.
	for caller := range callers {
		n += float64(dones[caller])
		undone += float64(undones[caller])
	}
	return sample{
		perSecond: n / took.Seconds(),
		p50:       sorted[len(sorted)/2], p99: sorted[len(sorted)*99/100],
		commands:  (after.commands - before.commands) / n,
		scripts:   (after.scripts - before.scripts) / n,
		serverUS:  (after.cpu - before.cpu) * 1e6 / n,
		undecided: undone / (n + undone),
	}, nil
}

// A meter reads what a server has done so far.
type meter func(ctx context.Context) work

type work struct {
	commands, scripts float64
	cpu               float64 // s
}

// redisMeter asks a redis-server.
func redisMeter(rdb *redis.Client) meter {
	return func(ctx context.Context) work {
		var w work
		for line := range strings.Lines(rdb.Info(ctx, "stats", "cpu", "commandstats").Val()) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), ":")
			f, _ := strconv.ParseFloat(v, 64)
			switch k {
			case "total_commands_processed":
				w.commands = f
			case "used_cpu_sys_main_thread", "used_cpu_user_main_thread":
				w.cpu += f
			case "cmdstat_eval", "cmdstat_evalsha":
				calls, _, _ := strings.Cut(strings.TrimPrefix(v, "calls="), ",")
				f, _ = strconv.ParseFloat(calls, 64)
				w.scripts += f
			}
		}
		return w
	}
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

// startRedis starts a redis-server on a free loopback port, with more settings if there are.
func startRedis(ctx context.Context, settings ...string) (t target, stop func(), err error) {
	return startServer(ctx, "redis-server", settings...)
}

// startServer is startRedis for a program that has the settings of redis-server.
func startServer(ctx context.Context, program string, settings ...string) (t target, stop func(), err error) {
	if t.addr, err = freeAddr(ctx); err != nil {
		return target{}, nil, err
	}
	_, port, _ := net.SplitHostPort(t.addr)
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return target{}, nil, err
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir}, settings...)...)
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
