package faults

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/engine/native"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/ports"
)

// The environment of an engine's process.
const engineDir, engineAddr = "FAULTS_ENGINE_DIR", "FAULTS_ENGINE_ADDR"

// Main is the first thing that TestMain calls. It returns, unless the process
// was started to be an engine. As many tests run in parallel as can wait at the
// same time, which is more than there are processors: -parallel says otherwise.
func Main() {
	_ = flag.Set("test.parallel", "6")
	if dir := os.Getenv(engineDir); dir != "" {
		fmt.Fprintln(os.Stderr, serve(dir, os.Getenv(engineAddr)))
		os.Exit(1)
	}
}

// A steppedClock is the system's, and some time more.
type steppedClock struct{ step atomic.Int64 }

func (c *steppedClock) Now() time.Time { return time.Now().Add(time.Duration(c.step.Load())) }

func (c *steppedClock) AfterFunc(d time.Duration, f func()) engine.Timer { return time.AfterFunc(d, f) }

// serve is the engine's process. It ends with its standard input, which has how
// far the clock is to be stepped, in ns.
func serve(dir, addr string) error {
	clock := new(steppedClock)
	e, err := engine.Open(context.Background(), engine.Options{Dir: dir, Fsync: aof.Always, Natives: native.All(), Clock: clock})
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = e.ServeConn(c) }() // how a client left is of no interest
		}
	}()
	fmt.Println("ready")
	for {
		var step int64
		if _, err := fmt.Scan(&step); err != nil {
			return err
		}
		clock.step.Add(step)
		fmt.Println("stepped")
	}
}

// An engineProcess is a process that runs an engine.
type engineProcess struct {
	dir, addr string
	cmd       *exec.Cmd
	in        io.WriteCloser
	out       *bufio.Reader
	errors    *await.Buffer
}

func startEngine(t *testing.T) *engineProcess {
	t.Helper()
	p := &engineProcess{dir: t.TempDir()}
	t.Cleanup(p.kill)
	var err error
	for range 20 { // a process that reserves none may have the port
		port, perr := ports.Reserve() // until t ends, so that nothing takes it while the process restarts
		must(t, perr)
		t.Cleanup(port.Release)
		p.addr = ports.Addr(port.Number)
		if err = p.start(); err == nil {
			return p
		}
	}
	t.Fatalf("faults: %v", err)
	return nil
}

// start returns when the engine has its data and listens.
func (p *engineProcess) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p.cmd = exec.CommandContext(context.Background(), self)
	p.cmd.Env = append(os.Environ(), engineDir+"="+p.dir, engineAddr+"="+p.addr)
	p.errors = new(await.Buffer)
	p.cmd.Stderr = io.MultiWriter(os.Stderr, p.errors)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return err
	}
	if err := p.says("ready\n"); err != nil {
		p.kill()
		return err
	}
	return nil
}

// errUnexpected is why the test ends when the process says something else than it should.
var errUnexpected = errors.New("that is not what was expected")

func (p *engineProcess) says(want string) error {
	line, err := p.out.ReadString('\n')
	if err == nil && line == want {
		return nil
	}
	p.kill() // and so all that it has said is here
	return fmt.Errorf("the engine's process says %q, and on stderr %q: %w", line, p.errors, cmp.Or(err, errUnexpected))
}

// step steps the clock.
func (p *engineProcess) step(d time.Duration) error {
	if _, err := fmt.Fprintln(p.in, d.Nanoseconds()); err != nil {
		return err
	}
	return p.says("stepped\n")
}

// kill kills the process, as kill -9 does.
func (p *engineProcess) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // always an error: it was killed
	p.cmd = nil
}
