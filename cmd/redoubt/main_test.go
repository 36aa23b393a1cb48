package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // servers that go away are what is tested
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "redoubt-test-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "redoubt")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", binary, ".").CombinedOutput()
	if err != nil {
		_, _ = os.Stderr.Write(out)
		panic(err)
	}
	return m.Run()
}

// A program is a running redoubt.
type program struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr await.Buffer
	ended          chan struct{}
}

// environ returns the test's environment without settings of redoubt.
func environ(more ...string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, envPrefix) {
			env = append(env, e)
		}
	}
	return append(env, more...)
}

// ownGroup starts a process in its own process group, on systems with groups.
var ownGroup *syscall.SysProcAttr

// start starts redoubt. env are pairs NAME=value.
func start(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	return startAs(t, binary, env, args...)
}

// startAs starts redoubt by another program, which execs it.
func startAs(t *testing.T, by string, env []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(context.Background(), by, args...)
	p.cmd.Env = environ(env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = ownGroup
	p.start()
	return p
}

// start starts the program. The end of the test kills it.
func (p *program) start() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
}

// wait returns the exit code.
func (p *program) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("%q still runs after 30 s; it said %q", p.cmd.Args[1:], p.stderr.String())
	}
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -int(ws.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *program) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// runToEnd runs redoubt to its end.
func runToEnd(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := start(t, env, args...)
	code = p.wait()
	return code, p.stdout.String(), p.stderr.String()
}

// eventually polls until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, 20*time.Second, what, ok)
}

// lines waits until a file has n lines.
func lines(t *testing.T, file string, n int) []string {
	t.Helper()
	var got []string
	eventually(t, fmt.Sprintf("%d lines in %s", n, filepath.Base(file)), func() bool {
		text, err := os.ReadFile(file)
		got = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		return err == nil && len(text) > 0 && len(got) >= n
	})
	return got
}

func mustContain(t *testing.T, what, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s is %q\nwant it to contain %q", what, text, want)
		}
	}
}
