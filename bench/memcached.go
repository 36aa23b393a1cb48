package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"os/user"
)

// benchMemcached measures redoubt serve --pools in front of memcached, as benchProxy
// does in front of Redis.
func benchMemcached(ctx context.Context, cfg config) error {
	return cfg.besideNutcracker(ctx, startMemcached, config.memcachedPool, "goal, at least the rate of the better nutcracker")
}

// memcachedPool measures all proxies in front of the same servers, and returns the missed goals.
func (c config) memcachedPool(ctx context.Context, servers []target) (missed []string, err error) {
	all, stop, err := startContenders(ctx, false, servers)
	if err != nil {
		return nil, err
	}
	defer stop()
	for _, t := range []target{all[isDirect], all[isRedoubt]} {
		if err := fillMemcached(ctx, t.addr); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	for _, l := range c.loads() {
		for _, verb := range []string{"set", "get"} {
			title := fmt.Sprintf("%s, %d back ends", verb, len(servers))
			cell, err := c.proxyCell(title, l, all, func(t target) (result, error) {
				return c.memcachedLoad(ctx, t, l, verb)
			})
			if err != nil {
				return nil, err
			}
			if cell.rate < 1 {
				missed = append(missed, fmt.Sprintf("%s -c %d -P %d: rate %.2f, want 1", title, l.clients, l.pipeline, cell.rate))
			}
		}
	}
	c.printMemory(all, len(servers))
	return missed, nil
}

// startMemcached starts memcached with its defaults.
func startMemcached(ctx context.Context) (t target, stop func(), err error) {
	addr, port, err := freePort(ctx)
	if err != nil {
		return target{}, nil, err
	}
	host, _, _ := net.SplitHostPort(addr)
	args := []string{"-l", host, "-p", port, "-U", "0"}
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		args = append(args, "-u", "root") // else it refuses
	}
	cmd := exec.CommandContext(ctx, "memcached", args...)
	if err := cmd.Start(); err != nil {
		return target{}, nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if err := awaitListener(ctx, addr); err != nil {
		stop()
		return target{}, nil, fmt.Errorf("memcached: %w", err)
	}
	return target{name: "memcached", addr: addr, pid: cmd.Process.Pid}, stop, nil
}
