package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// workerEnv has the orders of a worker that is a process of its own.
const workerEnv = "FAULTS_WORKER"

// Hire starts the test binary again as a process of its own, which a fault can
// stop, with orders for it. line is given what it prints, from one goroutine.
// dismiss ends it, and returns when it has.
func Hire(t *testing.T, orders any, line func(text string) error) (p *os.Process, dismiss func()) {
	t.Helper()
	p, in, ended := start(t, orders, line)
	return p, func() {
		_ = in.Close()
		if err := <-ended; err != nil {
			t.Errorf("a worker: %v", err)
		}
	}
}

// Doom starts a process as [Hire] does. kill ends it by SIGKILL, and returns when
// line was given all that it had printed.
func Doom(t *testing.T, orders any, line func(text string) error) (kill func()) {
	t.Helper()
	p, _, ended := start(t, orders, line)
	return func() {
		must(t, p.Kill())
		err := <-ended
		if _, killed := errors.AsType[*exec.ExitError](err); !killed {
			t.Errorf("a worker: %v", err)
		}
	}
}

func start(t *testing.T, orders any, line func(text string) error) (p *os.Process, in io.Closer, ended <-chan error) {
	t.Helper()
	text, err := json.Marshal(orders)
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err = cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	end := make(chan error, 1)
	go func() {
		var first error
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if err := line(lines.Text()); err != nil && first == nil {
				first = err
			}
		}
		if err := cmd.Wait(); first == nil {
			first = err
		}
		end <- first
	}()
	return cmd.Process, in, end
}

// WorkIfHired works, if this process was hired, with its orders, and then ends the process. ctx
// ends when the worker is dismissed. Each TestMain calls it whose tests hire.
func WorkIfHired[Orders any](work func(o Orders, ctx context.Context) error) {
	text := os.Getenv(workerEnv)
	if text == "" {
		return
	}
	var o Orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := work(o, ctx); err != nil {
		fmt.Fprintln(os.Stderr, "a worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
