package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/benchmarks"
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
	url, addrs, stop, err := startCluster(ctx, 3)
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
	keys := cfg.amount(scanKeys)
	cfg.progress("%s: %d keys are set", title, keys)
	for from := 0; from < keys; from += 1000 {
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
		what, name string
		run        func(context.Context) error
	}
	ways := []way{
		{"listed", "redoubt/scan, Keys", func(ctx context.Context) error {
			found, err := scanner.Keys(scan.Query{})
			if err != nil {
				return err
			}
			n := 0
			for _, err := range found.All(ctx) {
				if err != nil {
					return err
				}
				n++
			}
			return everyKey(n, keys)
		}},
		{"listed", "SCAN by go-redis, COUNT 1000", func(ctx context.Context) error {
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
			return everyKey(n, keys)
		}},
		{"measured", "redoubt/scan, Report", func(ctx context.Context) error {
			found, err := scanner.Keys(scan.Query{})
			if err != nil {
				return err
			}
			r, err := scanner.Report(ctx, found, scan.ReportOptions{})
			if err != nil {
				return err
			}
			return everyKey(int(r.Measured), keys)
		}},
	}
	if cli != nil {
		ways = append(ways,
			way{"listed", "redis-cli --scan, COUNT 10", cli("--scan")},
			way{"measured", "redis-cli --bigkeys", cli("--bigkeys")},
			way{"measured", "redis-cli --memkeys", cli("--memkeys")})
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
			rate := float64(keys) / time.Since(start).Seconds()
			cfg.raw.Printf("raw\t%s\t%s\t%.0f keys/s", title, ways[k].name, rate)
			rates[k] = append(rates[k], rate)
		}
	}
	cfg.progress("")
	for i, w := range ways {
		cfg.record(benchmarks.Record{Title: title + ", keys " + w.what, Contender: w.name, Unit: "keys/s", Rounds: rates[i]})
		cfg.printf("%-18s %-32s %9.0f keys/s", title, w.name, medianOf(rates[i]))
	}
	return nil
}

// everyKey returns an error unless all keys were listed.
func everyKey(n, want int) error {
	if n < want {
		return fmt.Errorf("%d keys, want %d", n, want)
	}
	return nil
}

// startCluster starts masters and makes a cluster of them.
func startCluster(ctx context.Context, masters int) (url string, addrs []string, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	var nodes []*redis.Client
	for range masters {
		bus, err := freeAddr(ctx)
		if err != nil {
			return "", nil, stop, err
		}
		_, busPort, _ := net.SplitHostPort(bus)
		t, stopOne, err := startRedis(ctx, "--cluster-enabled", "yes", "--cluster-port", busPort)
		if err != nil {
			return "", nil, stop, err
		}
		node := redis.NewClient(&redis.Options{Addr: t.addr})
		nodes, addrs = append(nodes, node), append(addrs, t.addr)
		stops = append(stops, func() {
			_ = node.Close()
			stopOne()
		})
		host, port, _ := net.SplitHostPort(t.addr)
		if err := nodes[0].Do(ctx, "CLUSTER", "MEET", host, port, busPort).Err(); err != nil {
			return "", nil, stop, err
		}
	}
	const slots = 16384
	for i, node := range nodes {
		if err := node.ClusterAddSlotsRange(ctx, slots*i/masters, slots*(i+1)/masters-1).Err(); err != nil {
			return "", nil, stop, err
		}
	}
	return "redis-cluster://" + strings.Join(addrs, ","), addrs, stop, awaitCluster(ctx, nodes)
}

// awaitCluster waits until each node knows the slots of all.
func awaitCluster(ctx context.Context, nodes []*redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, node := range nodes {
		for {
			info, err := node.ClusterInfo(ctx).Result()
			if err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_size:%d\r", len(nodes))) {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the cluster is not ready: %w: %s", errors.Join(ctx.Err(), err), info)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}
