package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"os/user"
)

// benchMemcached measures redoubt serve --pools in front of memcached, beside
// nutcracker, with its default buffers and with small ones, and beside a server without
// anything between: one pool of one server, and one of three.
func benchMemcached(ctx context.Context, cfg config) error {
	if !cfg.chosen {
		cfg.rounds = 5
	}
	var servers []target
	for range 3 {
		s, stop, err := startMemcached(ctx)
		if err != nil {
			return err
		}
		defer stop()
		servers = append(servers, s)
	}
	var missed []string
	for _, n := range []int{1, 3} {
		m, err := cfg.memcachedPool(ctx, servers[:n])
		if err != nil {
			return err
		}
		missed = append(missed, m...)
	}
	cfg.printf("# goal, at least the rate of the better nutcracker; missed: %d", len(missed))
	for _, m := range missed {
		cfg.printf("goal\t%s", m)
	}
	return nil
}

// memcachedPool measures all in front of the same servers, and returns which goals were
// missed.
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
	for _, l := range []load{{50, 1}, {50, 16}, {500, 1}, {500, 16}} {
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

// startMemcached starts memcached as it comes.
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
