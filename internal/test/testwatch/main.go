// Testwatch runs a test binary and ends it when one of its tests runs for too
// long:
//
//	go test -json -exec "testwatch -limit 1m" ./...
//
// The limit holds for each test alone, its subtests included, where go test's
// -timeout holds for a package. At the limit testwatch names the tests that
// run and sends SIGQUIT, so that Go prints what every goroutine was doing. It
// reads the output of go test -json or -v; other output names no tests, and
// then only go test's own -timeout holds.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// toDie is how long a binary has to print its stacks and end.
const toDie = 20 * time.Second

func main() {
	limit := flag.Duration("limit", time.Minute, "how long one test may run")
	flag.Parse()
	if flag.NArg() == 0 || *limit <= 0 {
		fmt.Fprintln(os.Stderr, "testwatch: usage: testwatch -limit 1m BINARY [ARGUMENT...]; the limit is above zero")
		os.Exit(2)
	}
	code, err := run(flag.Args(), *limit, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testwatch:", err)
	}
	os.Exit(code)
}

// run runs the binary, copies its output to out, and returns its exit code.
func run(args []string, limit time.Duration, out io.Writer) (int, error) {
	w := &watch{out: out, running: map[string]time.Time{}, spent: map[string]time.Duration{}}
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // go test's -timeout and the limit end it.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, w, w
	// A server that a killed test left behind may still hold the pipe.
	cmd.WaitDelay = toDie
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	// go test ends the binary by signals that reach this process.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM)
	defer signal.Stop(signals)

	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(min(limit/10, time.Second))
	defer tick.Stop()
	var kill <-chan time.Time
	for {
		select {
		case err := <-ended:
			if _, ok := errors.AsType[*exec.ExitError](err); !ok && err != nil {
				return 1, err
			}
			if code := cmd.ProcessState.ExitCode(); code >= 0 {
				return code, nil
			}
			return 2, nil // a signal ended it, which its output need not say
		case s := <-signals:
			_ = cmd.Process.Signal(s) // fails only if it has ended
		case now := <-tick.C:
			if over := w.over(now, limit); over != "" && kill == nil {
				_, _ = fmt.Fprintf(w, "testwatch: %s; what it was doing:\n", over)
				kill = time.After(toDie)
				if cmd.Process.Signal(syscall.SIGQUIT) != nil { // Windows has no such signal
					_ = cmd.Process.Kill()
				}
			}
		case <-kill:
			_ = cmd.Process.Kill()
		}
	}
}

// A watch copies the output of a test binary and notes which tests run.
type watch struct {
	mu      sync.Mutex
	out     io.Writer
	line    []byte                   // the beginning of a line that has not ended
	running map[string]time.Time     // since when
	spent   map[string]time.Duration // before a pause
}

func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.out.Write(p)
	now := time.Now()
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		if len(w.line) < 4096 { // a line that tells of a test is short
			w.line = append(w.line, line...)
		}
		if whole {
			w.note(string(w.line), now)
			w.line = w.line[:0]
		}
	}
	return n, err
}

// note understands the lines by which package testing tells of tests. With
// go test -json they come after ^V, which may follow a test's own output.
func (w *watch) note(line string, now time.Time) {
	line = line[strings.LastIndexByte(line, 0x16)+1:]
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "===" && words[0] != "---" {
		return
	}
	name := words[2]
	switch words[1] {
	case "RUN", "CONT":
		w.running[name] = now
	case "PAUSE":
		if since, ok := w.running[name]; ok {
			w.spent[name] += now.Sub(since)
			delete(w.running, name)
		}
	case "PASS:", "FAIL:", "SKIP:":
		delete(w.running, name)
		delete(w.spent, name)
	}
}

// over returns what is to be said when a test has run for longer than limit.
func (w *watch) over(now time.Time, limit time.Duration) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for name, since := range w.running {
		if d := w.spent[name] + now.Sub(since); d > limit {
			names = append(names, fmt.Sprintf("%s has run for %.0f s", name, d.Seconds()))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("the limit of a test is %v: %s", limit, strings.Join(names, ", "))
}
