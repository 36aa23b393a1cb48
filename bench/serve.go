package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	ratelimitwire "github.com/redoubt-go/redoubt/internal/wire/ratelimit"
)

// benchServe measures the cost of redoubt serve in front of a server: redis-benchmark against the
// server itself, and against redoubt serve in front of the same server.
func benchServe(ctx context.Context, cfg config) error {
	direct, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	direct.name = "redis-server"
	through, stopServe, err := startServe(ctx, "--backend", "redis://"+direct.addr)
	if err != nil {
		return err
	}
	defer stopServe()
	through.name = "through"

	rdb := redis.NewClient(&redis.Options{Addr: direct.addr})
	defer func() { _ = rdb.Close() }()
	evalsha, err := throttleByEvalsha(ctx, rdb)
	if err != nil {
		return err
	}
	throttle := []string{"CL.THROTTLE", "bench:__rand_int__", "15", "30", "60", "1"}
	get := []string{"GET", "bench:get:__rand_int__"}
	set := []string{"SET", "bench:get:__rand_int__", strings.Repeat("x", 64)}
	for _, pipeline := range []int{1, 16} {
		for _, c := range []struct {
			title           string
			through, direct []string
		}{
			{"CL.THROTTLE through serve / EVALSHA direct", throttle, evalsha},
			{"SET", set, set},
			{"GET", get, get},
		} {
			through.words, direct.words = c.through, c.direct
			if err := cfg.compareServers(ctx, c.title, load{50, pipeline}, through, direct); err != nil {
				return err
			}
		}
	}
	return nil
}

// throttleByEvalsha loads CL.THROTTLE's script and returns the command that
// runs it straight on the server.
func throttleByEvalsha(ctx context.Context, rdb *redis.Client) ([]string, error) {
	call, err := ratelimitwire.NewThrottle(15, 30, 60, 1)
	if err != nil {
		return nil, err
	}
	cmd := call.Cmd("bench:__rand_int__")
	if err := rdb.ScriptLoad(ctx, cmd.Script.Source()).Err(); err != nil {
		return nil, err
	}
	words := append([]string{"EVALSHA", cmd.Script.Digest(), strconv.Itoa(len(cmd.Keys))}, cmd.Keys...)
	return append(words, cmd.Args...), nil
}

// A target is a server under redis-benchmark, and the command it gets.
type target struct {
	name  string
	addr  string
	pid   int
	words []string
}

// A load is how redis-benchmark sends.
type load struct{ clients, pipeline int }

// loads are few and many clients, without a pipeline and with one. A brief run leaves out the many.
func (c config) loads() []load {
	all := []load{{50, 1}, {50, 16}, {500, 1}, {500, 16}}
	if c.isBrief() {
		all = all[:2]
	}
	return all
}

// compareServers measures servers in turn, ours and the peers.
func (c config) compareServers(ctx context.Context, title string, l load, ours target, peers ...target) error {
	all := append([]target{ours}, peers...)
	names := []string{"redoubt serve"}
	for _, p := range peers {
		names = append(names, p.name)
	}
	results := make([][]result, len(all))
	ratios, late := make([][]float64, len(all)), make([][]float64, len(all)) // of ours to each
	for round := range c.rounds {
		rs := make([]result, len(all))
		for i := range rs {
			k := (i + round) % len(rs) // another one is first in each round
			c.progress("%s -c %d -P %d, round %d of %d, %s", title, l.clients, l.pipeline, round+1, c.rounds, all[k].name)
			r, err := c.redisBenchmark(ctx, all[k], l)
			if err != nil {
				return err
			}
			rs[k] = r
			results[k] = append(results[k], r)
			c.raw.Printf("raw\t%s\t-c %d -P %d\t%s %.0f/s p50 %s p99 %s ms %.2f us", title, l.clients, l.pipeline, all[k].name, r.perSecond, r.p50, r.p99, r.cpu)
		}
		for k, r := range rs {
			ratios[k] = append(ratios[k], rs[0].perSecond/r.perSecond)
			late[k] = append(late[k], rs[0].p99ms()/r.p99ms())
		}
	}
	c.progress("")
	rate := func(r result) float64 { return r.perSecond }
	c.recordRounds(fmt.Sprintf("%s, pipeline of %d", title, l.pipeline), l.clients, "op/s", names, figures(results, rate))
	for k, t := range all {
		c.printf("%-44s -c %-3d -P %-2d  %-14s %8.0f/s  p99 %7.3f ms  %6.2f us/command  ours/this %.2f  p99 %.2f",
			title, l.clients, l.pipeline, t.name, median(results[k], rate), median(results[k], result.p99ms),
			median(results[k], func(r result) float64 { return r.cpu }), medianOf(ratios[k]), medianOf(late[k]))
	}
	return nil
}

type result struct {
	perSecond float64
	p50, p99  string  // ms
	cpu       float64 // the server's, µs a command
}

// redisBenchmark runs redis-benchmark once. The number of requests is chosen
// so that a run takes about the configured duration.
func (c config) redisBenchmark(ctx context.Context, t target, l load) (result, error) {
	host, port, _ := net.SplitHostPort(t.addr)
	n := int(50_000 * c.duration.Seconds())
	if l.pipeline > 1 {
		n *= 5
	}
	args := append([]string{"-h", host, "-p", port, "-c", strconv.Itoa(l.clients), "-P", strconv.Itoa(l.pipeline), "-n", strconv.Itoa(n),
		"-r", "10000", "--csv"}, t.words...)
	before := cpuSeconds(t.pid)
	out, err := exec.CommandContext(ctx, "redis-benchmark", args...).Output()
	if err != nil {
		return result{}, fmt.Errorf("redis-benchmark %s: %w", strings.Join(args, " "), err)
	}
	cpu := (cpuSeconds(t.pid) - before) * 1e6 / float64(n)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	// The title, which comes first, has its quotes unescaped.
	fields := strings.Split(lines[len(lines)-1], `","`)
	if len(fields) < 8 {
		return result{}, fmt.Errorf("redis-benchmark printed %q", out)
	}
	fields = fields[len(fields)-7:]
	rps, err := strconv.ParseFloat(fields[0], 64)
	return result{perSecond: rps, p50: fields[3], p99: fields[5], cpu: cpu}, err
}

// cpuSeconds returns the processor time of a process, in the kernel's steps of 1/100 s; 0 without
// /proc.
func cpuSeconds(pid int) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// buildRedoubt builds the binary from the source, without build flags.
func buildRedoubt(ctx context.Context) (binary string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	binary = filepath.Join(dir, "redoubt")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/redoubt")
	build.Dir, build.Stderr = "..", os.Stderr
	if err := build.Run(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build redoubt: %w", err)
	}
	return binary, remove, nil
}

// startServe builds redoubt and starts redoubt serve with more flags.
func startServe(ctx context.Context, flags ...string) (t target, stop func(), err error) {
	binary, remove, err := buildRedoubt(ctx)
	if err != nil {
		return target{}, nil, err
	}
	if t.addr, err = freeAddr(ctx); err != nil {
		return target{}, nil, err
	}
	cmd := exec.CommandContext(ctx, binary, append([]string{"serve", "--listen", t.addr, "--http", "", "--log-level", "warn"}, flags...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return target{}, nil, err
	}
	t.name, t.pid = "serve", cmd.Process.Pid
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		remove()
	}
	return t, stop, awaitPing(ctx, t.addr)
}
