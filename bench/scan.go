package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/scan"
)

const scanKeys = 1_000_000

// benchScan measures how many keys a second are listed, and measured in bytes. On one server the
// peers are a loop of SCAN in go-redis, redis-cli --scan and --bigkeys. On a cluster of three nodes
// ours asks all nodes at the same time, and the peer is a loop over the nodes.
func benchScan(ctx context.Context, cfg config) error {
	server, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	_, port, _ := net.SplitHostPort(server.addr)
	cli := func(args ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			out, err := exec.CommandContext(ctx, "redis-cli", append([]string{"-p", port}, args...)...).Output()
			if err == nil && len(out) == 0 {
				err = fmt.Errorf("redis-cli %v printed nothing", args)
			}
			return err
		}
	}
	if err := scanOne(ctx, cfg, "redis://"+server.addr, []string{server.addr}, cli); err != nil {
		return err
	}
	url, addrs, stop, err := startCluster(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return scanOne(ctx, cfg, url, addrs, nil)
}

// scanOne measures one deployment, whose nodes have these addresses.
func scanOne(ctx context.Context, cfg config, url string, addrs []string, cli func(args ...string) func(context.Context) error) error {
	conn, err := goredis.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	client, err := redoubt.New(conn, redoubt.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	title := fmt.Sprintf("scan, %d node(s)", len(addrs))
	cfg.progress("%s: %d keys are set", title, scanKeys)
	for from := 0; from < scanKeys; from += 1000 {
		cmds := make([]redoubt.Cmd, 1000)
		for i := range cmds {
			cmds[i] = redoubt.Cmd{Name: "SET", Keys: []string{fmt.Sprintf("user:%d:name", from+i)}, Args: []string{"somebody"}}
		}
		for _, r := range client.Pipeline(ctx, cmds) {
			if r.Err != nil {
				return r.Err
			}
		}
	}
	scanner, err := scan.New(client, scan.Options{})
	if err != nil {
		return err
	}
	nodes := make([]*redis.Client, len(addrs))
	for i, addr := range addrs {
		nodes[i] = redis.NewClient(&redis.Options{Addr: addr})
		defer func() { _ = nodes[i].Close() }()
	}
	type way struct {
		name string
		run  func(context.Context) error
	}
	ways := []way{
		{"redoubt/scan, Keys", func(ctx context.Context) error {
			keys, err := scanner.Keys(scan.Query{})
			if err != nil {
				return err
			}
			n := 0
			for _, err := range keys.All(ctx) {
				if err != nil {
					return err
				}
				n++
			}
			return everyKey(n)
		}},
		{"SCAN by go-redis, COUNT 1000", func(ctx context.Context) error {
			n := 0
			for _, node := range nodes {
				it := node.Scan(ctx, 0, "", 1000).Iterator()
				for it.Next(ctx) {
					n++
				}
				if err := it.Err(); err != nil {
					return err
				}
			}
			return everyKey(n)
		}},
		{"redoubt/scan, Report", func(ctx context.Context) error {
			keys, err := scanner.Keys(scan.Query{})
			if err != nil {
				return err
			}
			r, err := scanner.Report(ctx, keys, scan.ReportOptions{})
			if err != nil {
				return err
			}
			return everyKey(int(r.Measured))
		}},
	}
	if cli != nil {
		ways = append(ways,
			way{"redis-cli --scan, COUNT 10", cli("--scan")},
			way{"redis-cli --bigkeys", cli("--bigkeys")},
			way{"redis-cli --memkeys", cli("--memkeys")})
	}
	rates := make([][]float64, len(ways))
	for round := range cfg.rounds {
		for i := range ways {
			k := (i + round) % len(ways) // another one is first in each round
			cfg.progress("%s, round %d of %d, %s", title, round+1, cfg.rounds, ways[k].name)
			start := time.Now()
			if err := ways[k].run(ctx); err != nil {
				return fmt.Errorf("%s: %w", ways[k].name, err)
			}
			rate := scanKeys / time.Since(start).Seconds()
			cfg.raw.Printf("raw\t%s\t%s\t%.0f keys/s", title, ways[k].name, rate)
			rates[k] = append(rates[k], rate)
		}
	}
	cfg.progress("")
	for i, w := range ways {
		cfg.printf("%-18s %-32s %9.0f keys/s", title, w.name, medianOf(rates[i]))
	}
	return nil
}

// everyKey returns an error unless all keys were listed.
func everyKey(n int) error {
	if n < scanKeys {
		return fmt.Errorf("%d keys, want %d", n, scanKeys)
	}
	return nil
}

// startCluster starts three servers and makes a cluster of them.
func startCluster(ctx context.Context) (url string, addrs []string, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for range 3 {
		bus, err := freeAddr(ctx)
		if err != nil {
			stop()
			return "", nil, nil, err
		}
		_, busPort, _ := net.SplitHostPort(bus)
		t, stopOne, err := startRedis(ctx, "--cluster-enabled", "yes", "--cluster-port", busPort)
		if err != nil {
			stop()
			return "", nil, nil, err
		}
		stops, addrs = append(stops, stopOne), append(addrs, t.addr)
	}
	out, err := exec.CommandContext(ctx, "redis-cli", append([]string{"--cluster-yes", "--cluster", "create"}, addrs...)...).CombinedOutput()
	if err != nil {
		stop()
		return "", nil, nil, fmt.Errorf("redis-cli --cluster create: %w: %s", err, out)
	}
	return "redis-cluster://" + strings.Join(addrs, ","), addrs, stop, nil
}
