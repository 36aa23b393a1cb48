package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Server is one redis-server process.
type Server struct {
	tb     testing.TB
	p      *process
	shared bool // by all tests of this process: must not be stopped
}

// Start runs a redis-server of its own for tb and returns when it answers. It
// listens on a free port of 127.0.0.1 and on a unix socket, keeps nothing on
// disk, and allows DEBUG. It is killed when tb ends.
//
// args are options of redis-server, which override those: "--appendonly",
// "yes".
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	p, err := startProcess(args)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.remove)
	return &Server{tb: tb, p: p}
}

// Addr returns the TCP address as host:port. It stays the same over Restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.p.port)) }

// Socket returns the path of the unix socket. It stays the same over Restart.
func (s *Server) Socket() string { return s.p.socket }

// URL returns the TCP address as redis://host:port.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Pause stops the process by SIGSTOP: connections stay open and are still
// accepted by the kernel, but nothing is answered until Resume.
func (s *Server) Pause() {
	s.tb.Helper()
	s.change("pause", s.p.pause)
}

// Resume lets a paused process go on.
func (s *Server) Resume() {
	s.tb.Helper()
	s.change("resume", s.p.resume)
}

// Kill ends the process by SIGKILL and returns when it is gone. Killing it
// again does nothing. Writes that it acknowledged under --appendonly yes are in
// its directory, whatever appendfsync is: the kernel has them.
func (s *Server) Kill() {
	s.tb.Helper()
	s.change("kill", s.p.kill)
}

// Restart starts the server again with the same options, on the same port and
// in the same directory, after killing it if it runs. It returns when the
// server answers, its data loaded.
func (s *Server) Restart() {
	s.tb.Helper()
	s.change("restart", func() error { return errors.Join(s.p.kill(), s.p.start()) })
}

func (s *Server) change(what string, f func() error) {
	s.tb.Helper()
	if s.shared {
		s.tb.Fatalf("redistest: can't %s the server that Each shares among tests: use one of redistest.Start", what)
	}
	if err := f(); err != nil {
		s.tb.Fatalf("redistest: %s: %v", what, err)
	}
}

// CLI runs redis-cli on the server with args and returns what it prints,
// without the newline at the end. That may be an error reply, or that the
// server could not be reached; it is empty when the server dropped redis-cli's
// connection. A server that doesn't answer within 30 s ends the test.
func (s *Server) CLI(args ...string) string {
	s.tb.Helper()
	path, err := lookPath("redis-cli")
	if err != nil {
		s.tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append([]string{"-s", s.p.socket}, args...)...)
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && (!ended || ctx.Err() != nil) {
		s.tb.Fatalf("redistest: redis-cli %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// serverEnv names another redis-server, or valkey-server, for the tests.
const serverEnv = "REDIS_SERVER"

// lookPath finds a program of Redis, or says how to get it.
func lookPath(name string) (string, error) {
	if other := os.Getenv(serverEnv); other != "" && name == "redis-server" {
		name = other
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("redistest: %s is not installed, and the tests need version 7 or newer: "+
			"apt-get install redis-server redis-tools (Debian, Ubuntu), brew install redis (macOS), "+
			"or let make test do it: %w", name, err)
	}
	return path, nil
}
