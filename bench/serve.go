package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/ratelimit"
)

// benchServe measures what stands between a client and the server when
// redoubt serve does: redis-benchmark against the server itself, and through
// redoubt serve to the same server.
func benchServe(ctx context.Context, cfg config) error {
	addr, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	through, stopServe, err := startServe(ctx, addr)
	if err != nil {
		return err
	}
	defer stopServe()

	rdb := redis.NewClient(&redis.Options{Addr: addr})
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
			if err := cfg.compareServers(ctx, c.title, pipeline, through, addr, c.through, c.direct); err != nil {
				return err
			}
		}
	}
	return nil
}

// throttleByEvalsha loads CL.THROTTLE's script and returns the command that
// runs it straight on the server.
func throttleByEvalsha(ctx context.Context, rdb *redis.Client) ([]string, error) {
	call, err := ratelimit.NewThrottle(15, 30, 60, 1)
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

func (c config) compareServers(ctx context.Context, title string, pipeline int, through, direct string, throughCmd, directCmd []string) error {
	var ratios, ours, theirs []float64
	for round := range c.rounds {
		var a, b result
		var err error
		first, second := &a, &b
		if round%2 == 0 {
			*first, err = c.redisBenchmark(ctx, through, pipeline, throughCmd)
			if err == nil {
				*second, err = c.redisBenchmark(ctx, direct, pipeline, directCmd)
			}
		} else {
			*second, err = c.redisBenchmark(ctx, direct, pipeline, directCmd)
			if err == nil {
				*first, err = c.redisBenchmark(ctx, through, pipeline, throughCmd)
			}
		}
		if err != nil {
			return err
		}
		c.raw.Printf("raw\t%s\t-c 50 -P %d\tthrough %.0f/s p50 %s p99 %s ms\tdirect %.0f/s p50 %s p99 %s ms",
			title, pipeline, a.perSecond, a.p50, a.p99, b.perSecond, b.p50, b.p99)
		ours, theirs = append(ours, a.perSecond), append(theirs, b.perSecond)
		ratios = append(ratios, a.perSecond/b.perSecond)
	}
	c.printf("%-44s -c 50 -P %-2d  through %8.0f/s  direct %8.0f/s  ratio %.2f",
		title, pipeline, medianOf(ours), medianOf(theirs), medianOf(ratios))
	return nil
}

type result struct {
	perSecond float64
	p50, p99  string // ms
}

// redisBenchmark runs redis-benchmark once. The number of requests is chosen
// so that a run takes about the configured duration.
func (c config) redisBenchmark(ctx context.Context, addr string, pipeline int, words []string) (result, error) {
	host, port, _ := net.SplitHostPort(addr)
	n := int(50_000 * c.duration.Seconds())
	if pipeline > 1 {
		n *= 5
	}
	args := append([]string{"-h", host, "-p", port, "-c", "50", "-P", strconv.Itoa(pipeline), "-n", strconv.Itoa(n),
		"-r", "10000", "--csv"}, words...)
	out, err := exec.CommandContext(ctx, "redis-benchmark", args...).Output()
	if err != nil {
		return result{}, fmt.Errorf("redis-benchmark %s: %w", strings.Join(args, " "), err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(rows) < 2 || len(rows[1]) < 7 {
		return result{}, fmt.Errorf("redis-benchmark printed %q (%w)", out, err)
	}
	rps, err := strconv.ParseFloat(rows[1][1], 64)
	return result{perSecond: rps, p50: rows[1][4], p99: rows[1][6]}, err
}

// startServe builds redoubt and starts redoubt serve in front of backend.
func startServe(ctx context.Context, backend string) (addr string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return "", nil, err
	}
	binary := filepath.Join(dir, "redoubt")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/redoubt")
	build.Dir, build.Stderr = "..", os.Stderr
	if err := build.Run(); err != nil {
		return "", nil, fmt.Errorf("build redoubt: %w", err)
	}
	if addr, err = freeAddr(ctx); err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, binary, "serve", "--listen", addr, "--backend", "redis://"+backend, "--http", "")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	return addr, stop, awaitPing(ctx, addr)
}
