package faults

import (
	"bufio"
	"context"
	"encoding/json"
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
	text, err := json.Marshal(orders)
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	ended := make(chan error, 1)
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
		ended <- first
	}()
	return cmd.Process, func() {
		_ = in.Close()
		if err := <-ended; err != nil {
			t.Errorf("a worker: %v", err)
		}
	}
}

// Hired reports whether this process was hired, and reads its orders. ctx ends
// when it is dismissed.
func Hired(orders any) (ctx context.Context, hired bool) {
	text := os.Getenv(workerEnv)
	if text == "" {
		return nil, false
	}
	if err := json.Unmarshal([]byte(text), orders); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, true
}
