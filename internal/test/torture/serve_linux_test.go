package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/ports"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A serving is a `redoubt serve` that can be killed, stopped and started again. Its methods, but for addr
// and memory, belong to the test's goroutine.
type serving struct {
	t    *testing.T
	addr string
	args []string

	cmd      *exec.Cmd
	ended    chan struct{}
	starting chan error // gives how a start ended; nil: none is under way
	starts   int        // after the first

	mu       sync.Mutex
	log      []string // the last lines
	panics   []string
	heir     int // the process that has taken over, 0 if the one of cmd serves
	passings int // hand-overs that are complete, or refused
}

// startWithin is how long a server may take to start. It takes 50 ms.
const startWithin = time.Minute

// serve starts `redoubt serve`; args returns its arguments for an address. It ends with t.
func serve(t *testing.T, binary string, args func(addr string) []string) *serving {
	t.Helper()
	port, err := ports.Reserve()
	must(t, err)
	t.Cleanup(port.Release)
	s := &serving{t: t, addr: ports.Addr(port.Number)}
	s.args = append([]string{binary, "serve", "--log-format=json", "--http=", "--drain-timeout=500ms"}, args(s.addr)...)
	t.Cleanup(func() {
		s.await()
		s.kill()
	})
	must(t, s.start())
	return s
}

// start returns once it serves. While the servers behind it don't answer, it is started again.
func (s *serving) start() error {
	for end := time.Now().Add(startWithin); ; rest(50 * time.Millisecond) {
		serves := make(chan struct{})
		cmd := exec.CommandContext(context.Background(), s.args[0], s.args[1:]...)
		cmd.SysProcAttr = redistest.Owned()
		stderr, err := cmd.StderrPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		ended := make(chan struct{})
		go func() {
			s.follow(stderr, serves)
			_ = cmd.Wait() // How it ended is in its ProcessState.
			close(ended)
		}()
		s.mu.Lock()
		s.heir = 0
		s.mu.Unlock()
		s.cmd, s.ended = cmd, ended
		select {
		case <-serves:
			return nil
		case <-ended:
		case <-time.After(time.Until(end)):
			s.kill()
		}
		if time.Now().After(end) {
			return fmt.Errorf("redoubt serve does not start within %v: %s", startWithin, s.tail())
		}
	}
}

// startAgain starts it in the background: the servers behind it may come later.
func (s *serving) startAgain() {
	s.starts++
	s.starting = make(chan error, 1)
	go func() { s.starting <- s.start() }()
}

// serves reports whether it is not being started. Its process may be used only then.
func (s *serving) serves() bool {
	if s.starting == nil {
		return true
	}
	select {
	case err := <-s.starting:
		must(s.t, err)
		s.starting = nil
		return true
	default:
		return false
	}
}

// await returns once it serves.
func (s *serving) await() {
	await.Until(s.t, 2*startWithin, "redoubt serve serves", s.serves)
}

// follow reads the log.
func (s *serving) follow(stderr io.Reader, serves chan struct{}) {
	for in := bufio.NewReaderSize(stderr, 1<<16); ; {
		line, err := in.ReadString('\n')
		if strings.Contains(line, `"msg":"serving`) && serves != nil {
			close(serves)
			serves = nil
		}
		if line = strings.TrimSpace(line); line != "" {
			s.mu.Lock()
			s.log = append(s.log[max(0, len(s.log)-30):], line)
			var said struct {
				Msg string
				PID int
			}
			_ = json.Unmarshal([]byte(line), &said) // A panic is no JSON.
			switch said.Msg {
			case "handed over":
				s.heir = said.PID
			case "the former process has ended", "the former process has closed the directory",
				"no hand-over: this process goes on, because its successor failed", "SIGUSR2: no hand-over":
				s.passings++
			}
			if strings.Contains(line, "panic") || strings.Contains(line, "fatal error") || strings.Contains(line, "DATA RACE") {
				s.panics = append(s.panics, line)
			}
			s.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

func (s *serving) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "\n")
}

func (s *serving) faults() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.panics
}

// process is the one that serves.
func (s *serving) process() *os.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heir == 0 {
		return s.cmd.Process
	}
	p, err := os.FindProcess(s.heir)
	must(s.t, err)
	return p
}

// handOver lets a new process take over, in the background.
func (s *serving) handOver() {
	s.starts++
	s.starting = make(chan error, 1)
	passings := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.passings
	}
	before, p := passings(), s.process()
	go func() {
		err := p.Signal(syscall.SIGUSR2)
		for end := time.Now().Add(2 * startWithin); err == nil && passings() == before; rest(time.Millisecond) {
			if time.Now().After(end) {
				err = fmt.Errorf("no hand-over within %v: %s", 2*startWithin, s.tail())
			}
		}
		s.starting <- err
	}()
}

// kill ends it by SIGKILL.
func (s *serving) kill() {
	_ = s.process().Kill() // It fails only if the process is gone.
	<-s.ended              // which is when all processes that have its standard error are gone
}

// terminate ends it by SIGTERM: it drains.
func (s *serving) terminate() {
	_ = s.process().Signal(syscall.SIGTERM) // as above
	select {
	case <-s.ended:
	case <-time.After(startWithin):
		s.t.Errorf("redoubt serve still runs %v after SIGTERM: %s", startWithin, s.tail())
		s.kill()
	}
}

// memory returns how many bytes the process has in memory, 0 if it doesn't run.
func (s *serving) memory() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process().Pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) > 1 && string(f[0]) == "VmRSS:" {
			kib, _ := strconv.ParseInt(string(f[1]), 10, 64)
			return kib << 10
		}
	}
	return 0
}

func rest(d time.Duration) { <-time.After(d) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
