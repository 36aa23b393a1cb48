package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/ports"
)

// readyWithin is how long a server may take to answer. It takes 30 ms on an
// idle machine.
const readyWithin = 30 * time.Second

// errPortTaken says that another process took the port first.
var errPortTaken = errors.New("the port is taken")

// A process is a redis-server and what it leaves on disk.
type process struct {
	binary string
	first  []string // of the arguments, like the file of a Sentinel
	args   []string
	dir    string // short, since the path of a socket has at most 108 bytes
	socket string
	port   int
	owned  *ports.Port // the reservation of port, until remove

	mu      sync.Mutex
	running *exec.Cmd // nil: not running
	alive   *os.File  // gives EOF when the process has ended

	// heldOpen is what the reaper of the shared process waits for. Here the
	// garbage collector, which would close it, can't get it.
	heldOpen *os.File
}

// startProcess starts a server on a port that is free.
func startProcess(args []string) (*process, error) {
	p, err := newProcess(args)
	if err != nil {
		return nil, err
	}
	for range 100 {
		if err = p.reserve(); err != nil {
			break
		}
		if err = p.start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		p.remove()
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return p, nil
}

// newProcess returns a process that has a directory and no port yet.
func newProcess(args []string) (*process, error) {
	binary, err := lookPath("redis-server")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rd")
	if err == nil && len(dir) > 80 {
		_ = os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", "rd")
	}
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return &process{binary: binary, args: args, dir: dir, socket: filepath.Join(dir, "redis.sock")}, nil
}

// reserve takes a port, which nobody else gets while the server restarts.
func (p *process) reserve() error {
	p.owned.Release()
	owned, err := ports.Reserve()
	if err != nil {
		return err
	}
	p.owned, p.port = owned, owned.Number
	return nil
}

// start starts the process on p.port and waits until it answers.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return errors.New("it runs already")
	}
	version, err := installed()
	if err != nil {
		return err
	}
	var debug []string
	if !version.Before(7, 0) { // older ones allow it always
		debug = []string{"--enable-debug-command", "local"}
	}
	logfile, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logfile.Close()
	alive, inherited, err := os.Pipe()
	if err != nil {
		return err
	}

	cmd := exec.CommandContext(context.Background(), p.binary, slices.Concat(p.first, []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(p.port),
		"--unixsocket", p.socket, "--dir", p.dir,
		"--save", "", "--appendonly", "no",
		"--repl-diskless-sync-delay", "0",
	}, debug, p.args)...)
	cmd.Stdout, cmd.Stderr = logfile, logfile
	cmd.ExtraFiles = []*os.File{inherited}
	cmd.SysProcAttr = Owned()
	err = cmd.Start()
	_ = inherited.Close() // else alive would never end
	if err != nil {
		_ = alive.Close()
		return err
	}
	p.running, p.alive = cmd, alive
	if err := p.awaitReady(); err != nil {
		_ = p.killLocked()
		return err
	}
	return nil
}

// awaitReady returns when the server answers and has loaded its data. It asks
// through the socket: on the port another server might answer.
func (p *process) awaitReady() error {
	for deadline := time.Now().Add(readyWithin); time.Now().Before(deadline); {
		v, err := p.call("PING")
		if refused, ok := v.(resp.Error); err == nil && (!ok || refused.Code() != "LOADING") {
			return nil
		}
		// Wait a little, and find out at once if the process has ended.
		_ = p.alive.SetReadDeadline(time.Now().Add(2 * time.Millisecond))
		if _, err := p.alive.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			log, _ := os.ReadFile(p.logPath())
			if bytes.Contains(log, []byte("Address already in use")) {
				return fmt.Errorf("%w: %d", errPortTaken, p.port)
			}
			return fmt.Errorf("redis-server ended at once: %s", tail(log))
		}
	}
	log, _ := os.ReadFile(p.logPath())
	return fmt.Errorf("redis-server does not answer after %v: %s", readyWithin, tail(log))
}

func (p *process) logPath() string { return filepath.Join(p.dir, "redis.log") }

// tail returns the end of a log, where the reason is.
func tail(log []byte) []byte {
	log = bytes.TrimSpace(log)
	return log[max(0, len(log)-1000):]
}

func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killLocked()
}

func (p *process) killLocked() error {
	if p.running == nil {
		return nil
	}
	if err := p.running.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = p.running.Wait() // always an error: it was killed
	_ = p.alive.Close()
	p.running = nil
	return nil
}

func (p *process) pause() error  { return p.signal(Suspend) }
func (p *process) resume() error { return p.signal(Resume) }

func (p *process) signal(send func(*os.Process) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return errors.New("it does not run")
	}
	return send(p.running.Process)
}

// remove ends the process and deletes what it left on disk.
func (p *process) remove() {
	_ = p.kill()
	p.owned.Release()
	_ = os.RemoveAll(p.dir)
}
