//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/certtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// A lineage is a `redoubt serve` and the processes that take its place, one after the other. They share one log.
type lineage struct {
	*serving
	pid      int // of the one that serves
	restarts int
}

func startLineage(t *testing.T, args ...string) *lineage {
	t.Helper()
	return lineageOf(t, startServing(t, args...))
}

func lineageOf(t *testing.T, s *serving) *lineage {
	l := &lineage{serving: s, pid: s.cmd.Process.Pid}
	t.Cleanup(func() { _ = syscall.Kill(l.pid, syscall.SIGKILL) })
	return l
}

// logged returns the lines of the log with one of these messages.
func (l *lineage) logged(messages ...string) (lines []map[string]any) {
	for text := range strings.Lines(l.stderr.String()) {
		var line map[string]any
		for _, m := range messages {
			if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == m {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// handOver has a new process take over, and waits until the former one has ended.
func (l *lineage) handOver(t *testing.T) {
	t.Helper()
	failures := func() int {
		return len(l.logged("no hand-over: this process goes on, because its successor failed", "SIGUSR2: no hand-over"))
	}
	before := failures()
	if err := syscall.Kill(l.pid, syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	l.restarts++
	eventually(t, "a successor serves alone", func() bool {
		if failures() > before {
			t.Fatalf("the log has %s", l.stderr.String())
		}
		return len(l.logged("serving")) > l.restarts &&
			len(l.logged("the former process has ended", "the former process has closed the directory")) == l.restarts
	})
	pid, _ := l.logged("handed over")[l.restarts-1]["pid"].(float64)
	l.pid = int(pid)
}

// A crowd are clients that send without a pause, never send a command twice, and look whether their connection has ended
// before they send, as every pool of connections does.
type crowd struct {
	clients               sync.WaitGroup
	stop                  chan struct{}
	refused, cut, acked   atomic.Int64
	mu                    sync.Mutex
	first                 error // the first fault
	network, address, key string
}

// gather starts n clients. Every second one opens a connection for each command.
func gather(network, address, key string, n int) *crowd {
	c := &crowd{stop: make(chan struct{}), network: network, address: address, key: key}
	for i := range n {
		c.clients.Go(func() { c.send(i%2 == 0) })
	}
	return c
}

func (c *crowd) send(fresh bool) {
	var rdb *redis.Client
	for {
		select {
		case <-c.stop:
			if rdb != nil {
				_ = rdb.Close()
			}
			return
		default:
		}
		if rdb == nil {
			rdb = redis.NewClient(&redis.Options{
				Network: c.network, Addr: c.address, MaxRetries: -1, PoolSize: 1, ReadTimeout: time.Minute, PoolTimeout: time.Minute, Dialer: c.dial, DialerRetries: 1,
			})
		}
		if err := rdb.Incr(context.Background(), c.key).Err(); err != nil {
			c.fault(&c.cut, err)
		} else {
			c.acked.Add(1)
		}
		if fresh {
			_ = rdb.Close()
			rdb = nil
		}
	}
}

func (c *crowd) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		c.fault(&c.refused, err)
	}
	return conn, err
}

func (c *crowd) fault(n *atomic.Int64, err error) {
	n.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first == nil {
		c.first = err
	}
}

// disperse ends the clients. It fails the test if one was refused, if not each command that ran was answered, or if
// more than one command in twenty met the end of its connection: a busy machine may be late for a few.
func (c *crowd) disperse(t *testing.T) {
	t.Helper()
	close(c.stop)
	c.clients.Wait()
	rdb := redis.NewClient(&redis.Options{Network: c.network, Addr: c.address, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	ran, err := rdb.Get(t.Context(), c.key).Int64()
	t.Logf("%s: %d replies, %d connections cut, %d refused", c.key, c.acked.Load(), c.cut.Load(), c.refused.Load())
	if c.refused.Load() != 0 || err != nil || ran != c.acked.Load() || ran == 0 || c.cut.Load()*20 > ran {
		t.Errorf("%s: %d connections were refused, %d were cut, first: %v; %d commands ran, %d were answered (%v)",
			c.key, c.refused.Load(), c.cut.Load(), c.first, ran, c.acked.Load(), err)
	}
}

// grew waits until the clients have 20 more replies.
func (c *crowd) grew(t *testing.T) {
	t.Helper()
	before := c.acked.Load()
	eventually(t, "replies", func() bool { return c.acked.Load() >= before+20 })
}

// restartsUnder restarts a server n times while clients send, through each address.
func restartsUnder(t *testing.T, n int, l *lineage, addresses ...string) {
	t.Helper()
	var crowds []*crowd
	for i, a := range addresses {
		network, address := network(a)
		crowds = append(crowds, gather(network, address, fmt.Sprintf("crowd:%d", i), 4))
	}
	for range n {
		for _, c := range crowds {
			c.grew(t)
		}
		l.handOver(t)
	}
	for _, c := range crowds {
		c.grew(t)
		c.disperse(t)
	}
	if status, _ := l.get(t, "/readyz"); status != 200 {
		t.Errorf("/readyz of the last process: %d", status)
	}
}

// TestRestart restarts each kind of server under load.
//
// Promise: A restart by SIGUSR2 refuses no connection, and loses no reply to a command that ran. Clients send all the time, on
// connections that stay and on new ones, by TCP and by a unix socket, while processes take the place of each other.
func TestRestart(t *testing.T) {
	t.Run("one server", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "s")
		l := startLineage(t, "--backend", redistest.Start(t).URL(), "--listen", "127.0.0.1:0,unix:"+socket)
		tcp, _, _ := strings.Cut(l.addr, ", ")
		restartsUnder(t, 2, l, tcp, "unix:"+socket)
		if err := syscall.Kill(l.pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the last process removes the socket", func() bool {
			_, err := os.Lstat(socket)
			return errors.Is(err, os.ErrNotExist)
		})
	})
	t.Run("a pool", func(t *testing.T) {
		one, two := redistest.Start(t), redistest.Start(t)
		file := writePools(t, fmt.Sprintf("alpha:\n  listen: %s\n  redis: true\n  servers:\n   - %s:1 redis-1\n   - %s:1 redis-2\n", freeAddr(t), one.Addr(), two.Addr()))
		l := startLineage(t, "--pools", file)
		restartsUnder(t, 2, l, l.addr)
	})
	t.Run("the engine", func(t *testing.T) {
		l := startLineage(t, "--listen=127.0.0.1:0", "--dir", t.TempDir())
		restartsUnder(t, 2, l, l.addr)
	})
}

// TestTwentyRestarts is the measurement: redis-benchmark, with a connection for each command, beside clients whose
// connections stay.
func TestTwentyRestarts(t *testing.T) {
	slow.Test(t, "twenty restarts under load take a minute")
	l := startLineage(t, "--listen=127.0.0.1:0", "--backend", redistest.Start(t).URL())
	_, port, _ := net.SplitHostPort(l.addr)
	ctx, cancel := context.WithCancel(t.Context())
	var rounds, faults atomic.Int64
	var bench sync.WaitGroup
	if program, err := exec.LookPath("redis-benchmark"); err == nil { // redis-server comes with it
		bench.Go(func() {
			for ctx.Err() == nil {
				// It ends at the first connection that is refused, or that ends before its reply.
				out, err := exec.CommandContext(t.Context(), program, "-p", port, "-k", "0", "-c", "8", "-n", "5000", "-t", "set", "-q").CombinedOutput()
				rounds.Add(1)
				if err != nil || bytes.Contains(out, []byte("rror")) {
					faults.Add(1)
					t.Errorf("redis-benchmark: %v\n%s", err, out)
				}
			}
		})
	}
	restartsUnder(t, 20, l, l.addr)
	cancel()
	bench.Wait()
	t.Logf("redis-benchmark ran %d times, 5,000 commands each, and failed %d times", rounds.Load(), faults.Load())
}

// TestSuccessorFails: a process that can't start leaves the former one as it was, which says why.
func TestSuccessorFails(t *testing.T) {
	for name, args := range map[string][]string{"one server": {"--backend", redistest.Start(t).URL()}, "the engine": {"--dir", t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "users.acl")
			write := func(text string) {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("user default on nopass ~* &* +@all\n")
			socket := filepath.Join(t.TempDir(), "s")
			l := startLineage(t, append(args, "--listen=127.0.0.1:0,unix:"+socket, "--aclfile", file)...)
			write("user default on nonsense\n")
			crowd := gather("unix", socket, "crowd", 2)
			for n := 1; n <= 2; n++ {
				crowd.grew(t)
				l.signal(syscall.SIGUSR2)
				eventually(t, "it tells why", func() bool {
					return strings.Count(l.stderr.String(), "it ended before it was ready: exit status 64") == n
				})
			}
			mustContain(t, "the log", l.stderr.String(), `user "default": rule 2 is unknown`)
			write("user default on nopass ~* &* +@all\n")
			l.handOver(t)
			crowd.grew(t)
			crowd.disperse(t)
		})
	}
}

// TestSuccessorCantListen: a new process has taken the unix socket over, and then fails, because another address is
// taken. The former process is reached by the socket as before.
func TestSuccessorCantListen(t *testing.T) {
	server := redistest.Start(t)
	socket, taken := filepath.Join(t.TempDir(), "s"), freeAddr(t)
	text := fmt.Sprintf("alpha:\n  listen: %s\n  redis: true\n  servers:\n   - %s:1\n", socket, server.Addr())
	file := writePools(t, text)
	l := startLineage(t, "--pools", file)
	hold, err := new(net.ListenConfig).Listen(t.Context(), "tcp", taken)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hold.Close() }()
	more := strings.Replace(text, "  redis", "  listen_also:\n   - "+taken+"\n  redis", 1)
	if err := os.WriteFile(file, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	l.signal(syscall.SIGUSR2)
	eventually(t, "it tells why", func() bool { return strings.Contains(l.stderr.String(), "it ended before it was ready") })
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Errorf("the former process after that: %v", err)
	}
}

// TestNoHandOver: data that is only in memory would be lost.
func TestNoHandOver(t *testing.T) {
	s := startServe(t)
	client := dial(t, s.addr)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGUSR2)
	eventually(t, "it tells why", func() bool {
		return strings.Contains(s.stderr.String(), "only in the memory of this process: set --dir")
	})
	if v := client.Get(t.Context(), "k").Val(); v != "v" {
		t.Errorf("after that k is %q", v)
	}
}

// TestRestartTLS: an address with TLS is handed over, and has it.
func TestRestartTLS(t *testing.T) {
	ours := certtest.New(t)
	ours.Sign("server")
	ours.Sign("user")
	s, _, encrypted, _ := startDoors(t, ours, "--dir", t.TempDir())
	l := lineageOf(t, s)
	l.handOver(t)
	c := redis.NewClient(&redis.Options{Addr: encrypted, TLSConfig: ours.Client("user"), MaxRetries: -1})
	defer func() { _ = c.Close() }()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

// A manager stands for systemd.
type manager struct {
	*net.UnixConn
	socket string
}

func startManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{socket: filepath.Join(t.TempDir(), "notify")}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	m.UnixConn = conn
	return m
}

// wants reads what the server says, apart from its watchdog, and returns it.
func (m *manager) wants(t *testing.T, prefix string) string {
	t.Helper()
	buf := make([]byte, 4096)
	_ = m.SetReadDeadline(time.Now().Add(30 * time.Second))
	for {
		n, err := m.Read(buf)
		said := string(buf[:n])
		switch {
		case err != nil:
			t.Fatalf("the server doesn't say %q: %v", prefix, err)
		case strings.HasPrefix(said, prefix):
			return said
		case said != "WATCHDOG=1":
			t.Fatalf("the server says %q, want %q", said, prefix)
		}
	}
}

// TestTellsSystemd: systemd hears when the server serves, reloads, works, ends, and which process it is.
func TestTellsSystemd(t *testing.T) {
	m := startManager(t)
	by := filepath.Join(t.TempDir(), "by")
	script := "#!/bin/sh\nexport NOTIFY_SOCKET=" + m.socket + " WATCHDOG_USEC=200000 WATCHDOG_PID=$$\nexec " + binary + ` "$@"`
	if err := os.WriteFile(by, []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	l := lineageOf(t, startServingAs(t, by, "--listen=127.0.0.1:0", "--backend", redistest.Start(t).URL()))
	m.wants(t, "READY=1")
	m.wants(t, "WATCHDOG=1")
	l.signal(syscall.SIGHUP)
	if said := m.wants(t, "RELOADING=1\n"); !strings.Contains(said, "MONOTONIC_USEC=") {
		t.Errorf("systemd would wait for ever after %q", said)
	}
	m.wants(t, "READY=1")
	l.handOver(t)
	m.wants(t, fmt.Sprintf("MAINPID=%d", l.pid))
	m.wants(t, "READY=1")
	m.wants(t, "WATCHDOG=1") // the former process has ended: the successor says it
	if err := syscall.Kill(l.pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	m.wants(t, "STOPPING=1")
}

// TestSocketActivation: the server takes the sockets that systemd has opened, and leaves them to systemd at the end. It takes no
// sockets that were meant for another process.
func TestSocketActivation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	unix, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close() }()
	tcp, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	socketOf := func(l interface{ File() (*os.File, error) }) *os.File {
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	backend := redistest.Start(t).URL()
	activate := func(pid string) *program {
		p := &program{t: t, ended: make(chan struct{})}
		p.cmd = exec.CommandContext(t.Context(), "sh", "-c", "LISTEN_PID="+pid+` LISTEN_FDS=2 LISTEN_FDNAMES=redis:redis exec "$@"`, "sh",
			binary, "serve", "--http=", "--backend", backend, "--listen", tcp.Addr().String()+",unix:"+path)
		p.cmd.Env, p.cmd.Stderr = environ(), &p.stderr
		p.cmd.ExtraFiles = []*os.File{socketOf(unix), socketOf(tcp.(*net.TCPListener))}
		p.start()
		return p
	}
	if p := activate("1"); p.wait() != exitUnavailable {
		t.Errorf("with another process' sockets it says %q", p.stderr.String())
	}
	p := activate("$$")
	for _, address := range []string{tcp.Addr().String(), "unix:" + path} {
		network, a := network(address)
		c := redis.NewClient(&redis.Options{Network: network, Addr: a, MaxRetries: -1})
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		_ = c.Close()
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d, %q", code, p.stderr.String())
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the path is systemd's: %v", err)
	}
}
