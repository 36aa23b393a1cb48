// Package memcachedtest starts memcached for tests.
package memcachedtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/ports"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// readyWithin is how long a server may take to answer.
const readyWithin = 30 * time.Second

// A Server is one memcached process.
type Server struct {
	tb   testing.TB
	args []string
	addr string

	mu      sync.Mutex
	running *exec.Cmd
}

// Start runs memcached on a free port of 127.0.0.1 and returns when it answers. It
// is killed when tb ends. args are options of memcached.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	if _, err := exec.LookPath("memcached"); err != nil {
		tb.Fatal("these tests need memcached, which is not installed: apt-get install memcached, dnf install memcached, or brew install memcached")
	}
	s := &Server{tb: tb, args: args}
	tb.Cleanup(s.Kill)
	for range 100 {
		port, err := ports.Reserve() // until tb ends, so that nothing takes it while memcached restarts
		if err != nil {
			tb.Fatalf("memcachedtest: %v", err)
		}
		tb.Cleanup(port.Release)
		s.addr = ports.Addr(port.Number)
		if l, err := net.Listen("tcp", s.addr); err == nil { //nolint:noctx // it does not wait
			_ = l.Close()
			if err = s.start(); err == nil {
				return s
			}
			tb.Log(err)
		}
	}
	tb.Fatal("memcachedtest: memcached does not start")
	return nil
}

func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	args := append([]string{"-l", host, "-p", port, "-U", "0", "-t", "1"}, s.args...)
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		args = append(args, "-u", "root") // else it refuses
	}
	cmd := exec.CommandContext(context.Background(), "memcached", args...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = redistest.Owned()
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := []byte("STAT pid " + strconv.Itoa(cmd.Process.Pid) + "\r\n")
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(readyWithin); time.Now().Before(end); <-tick.C {
		if answer, err := ask(s.addr, slices.Contains(s.args, "-Z")); err == nil {
			if !bytes.HasPrefix(answer, pid) {
				break // another server has the port
			}
			s.running = cmd
			return nil
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return fmt.Errorf("memcachedtest: it does not answer on %s: %s", s.addr, log.Bytes())
}

// ask returns the beginning of an answer to stats.
func ask(addr string, encrypted bool) ([]byte, error) { //nolint:revive // what the server speaks
	conn, err := net.Dial("tcp", addr) //nolint:noctx // on loopback
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(readyWithin))
	if encrypted {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it has started it
	}
	if _, err := conn.Write([]byte("stats\r\n")); err != nil {
		return nil, err
	}
	buf := make([]byte, 64)
	n, err := conn.Read(buf)
	return buf[:n], err
}

// Addr returns the address as host:port. It stays the same over Restart.
func (s *Server) Addr() string { return s.addr }

// Kill ends the process by SIGKILL and returns when it is gone. Killing it again
// does nothing.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	if err := s.running.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.tb.Errorf("memcachedtest: kill: %v", err)
		return
	}
	_ = s.running.Wait() // always an error: it was killed
	s.running = nil
}

// Restart starts it again on the same port, empty.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		s.tb.Fatal(err)
	}
}

// Pause stops the process: the kernel still accepts connections for it, but
// nothing is answered until Resume.
func (s *Server) Pause() { s.signal("pause", redistest.Suspend) }

// Resume lets it go on.
func (s *Server) Resume() { s.signal("resume", redistest.Resume) }

func (s *Server) signal(what string, send func(*os.Process) error) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.tb.Fatalf("memcachedtest: can't %s: it does not run", what)
	}
	if err := send(s.running.Process); err != nil {
		s.tb.Fatalf("memcachedtest: %s: %v", what, err)
	}
}
