package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A poolFile is a pool of servers in the format that both nutcracker and redoubt serve --pools
// read, with the required settings only.
type poolFile struct {
	redis   bool
	servers []string // addresses
}

func (p poolFile) text(listen string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "bench:\n  listen: %s\n  hash: fnv1a_64\n  distribution: ketama\n  redis: %t\n  preconnect: true\n  servers:\n", listen, p.redis)
	for _, s := range p.servers {
		fmt.Fprintf(&b, "   - %s:1\n", s)
	}
	return b.String()
}

// startNutcracker starts Debian's nutcracker in front of a pool, with more flags,
// such as the size of its buffers.
func startNutcracker(ctx context.Context, p poolFile, flags ...string) (t target, stop func(), err error) {
	_, stats, err := freePort(ctx)
	if err != nil {
		return target{}, nil, err
	}
	return startPool(ctx, "nutcracker", p, func(file string) *exec.Cmd {
		args := []string{"-c", file, "-a", "127.0.0.1", "-s", stats, "-p", file + ".pid", "-v", "0", "-o", file + ".log"}
		return exec.CommandContext(ctx, "nutcracker", append(args, flags...)...)
	})
}

// startServePool builds redoubt and starts redoubt serve --pools with its defaults.
func startServePool(ctx context.Context, p poolFile, flags ...string) (t target, stop func(), err error) {
	binary, remove, err := buildRedoubt(ctx)
	if err != nil {
		return target{}, nil, err
	}
	t, end, err := startPool(ctx, "redoubt", p, func(file string) *exec.Cmd {
		return exec.CommandContext(ctx, binary, append([]string{"serve", "--pools", file, "--http", "", "--log-level", "warn"}, flags...)...)
	})
	if err != nil {
		remove()
		return t, nil, err
	}
	return t, func() { end(); remove() }, nil
}

// startPool starts a proxy for a pool, given the name of its file, and waits until it listens.
func startPool(ctx context.Context, name string, p poolFile, command func(file string) *exec.Cmd) (t target, stop func(), err error) {
	if t.addr, _, err = freePort(ctx); err != nil {
		return target{}, nil, err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return target{}, nil, err
	}
	file := filepath.Join(dir, "pool.yml")
	if err := os.WriteFile(file, []byte(p.text(t.addr)), 0o600); err != nil {
		return target{}, nil, err
	}
	cmd := command(file)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return target{}, nil, err
	}
	t.name, t.pid = name, cmd.Process.Pid
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	if err := awaitListener(ctx, t.addr); err != nil {
		stop()
		return target{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, stop, nil
}

func freePort(ctx context.Context) (addr, port string, err error) {
	if addr, err = freeAddr(ctx); err != nil {
		return "", "", err
	}
	_, port, err = net.SplitHostPort(addr)
	return addr, port, err
}

// awaitListener waits until a process listens at addr. It sends nothing, because nutcracker closes
// clients that send the first commands of go-redis.
func awaitListener(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nobody listens at %s: %w", addr, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
