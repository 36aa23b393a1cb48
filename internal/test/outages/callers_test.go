package outages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/programs"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/lock"
)

// callers are the programs that take the locks.
var callers = []string{"redoubt lock", "Go", "Python"}

const (
	leaseTTL = 5 * time.Second
	holdsFor = 100 * time.Millisecond // long enough that the others wait
	restsFor = 50 * time.Millisecond  // after an error
)

// rest waits for a while, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// goService takes a lock again and again by the library.
func goService(ctx context.Context, locks *lock.Mutex, name string, f *floor) {
	for ctx.Err() == nil {
		f.wait(name, "Go")
		lease, err := locks.Acquire(ctx, name)
		if err == nil {
			f.enter(name, "Go", lease.Token())
			rest(lease.Context(ctx), holdsFor)
			f.leave(name, "Go")
			err = lease.Release(ctx)
		}
		if err != nil && ctx.Err() == nil {
			f.refuse(name, "Go", err.Error())
			if !errors.Is(err, redoubt.ErrUnavailable) && !errors.Is(err, redoubt.ErrUnknownOutcome) && !errors.Is(err, lock.ErrNotHeld) {
				f.fault("Acquire of %s: %v", name, err)
			}
			rest(ctx, restsFor)
		}
	}
}

// commandLine is what `redoubt lock` runs: it tells when it has begun and that it ends, and
// ends once that is known.
const commandLine = `echo in $REDOUBT_FENCE; sleep 0.1; echo out; read known`

// redoubtLock takes a lock again and again by the command line.
func redoubtLock(ctx context.Context, built, url, name string, f *floor) {
	const who = "redoubt lock"
	for ctx.Err() == nil {
		var errs strings.Builder
		cmd := exec.CommandContext(ctx, built, "lock", name, "--backend", url, "--ttl", leaseTTL.String(), "--", "sh", "-c", commandLine)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.SysProcAttr = redistest.Owned()
		cmd.Stderr = &errs
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		f.wait(name, who)
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			f.fault("%v", err)
			return
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if fence, ok := strings.CutPrefix(lines.Text(), "in "); ok {
				n, _ := strconv.ParseInt(fence, 10, 64) // One that is none is a fault too: it isn't greater.
				f.enter(name, who, n)
			} else {
				f.leave(name, who)
				_, _ = io.WriteString(in, "known\n") // It may be gone.
			}
		}
		err := cmd.Wait()
		f.leave(name, who)
		if err == nil || ctx.Err() != nil {
			continue
		}
		f.refuse(name, who, strings.TrimSpace(errs.String()))
		// 69: no server answers, 70: the lock was lost or in danger.
		if code := cmd.ProcessState.ExitCode(); code != 69 && code != 70 {
			f.fault("redoubt lock %s: %v: %s", name, err, errs.String())
		}
		rest(ctx, restsFor)
	}
}

// python runs the worker, which takes all locks, each in a thread.
func python(ctx context.Context, t *testing.T, addr string, names []string, f *floor) {
	const who = "Python"
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		f.fault("%v", err)
		return
	}
	var errs strings.Builder
	args := append([]string{"-u", "testdata/worker.py", host, port, strconv.FormatInt(leaseTTL.Milliseconds(), 10), fmt.Sprint(holdsFor.Seconds())}, names...)
	cmd := exec.CommandContext(ctx, programs.Python(t, "redis"), args...)
	cmd.SysProcAttr = redistest.Owned()
	cmd.Stderr = &errs
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		f.fault("%v", err)
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		words := strings.SplitN(lines.Text(), " ", 3)
		switch words[0] {
		case "wait":
			f.wait(words[1], who)
		case "in":
			n, _ := strconv.ParseInt(words[2], 10, 64)
			f.enter(words[1], who, n)
		case "out":
			f.leave(words[1], who)
			_, _ = fmt.Fprintln(in, words[1]) // It may be gone.
		case "error":
			f.refuse(words[1], who, words[2])
		}
	}
	if err := cmd.Wait(); ctx.Err() == nil {
		f.fault("the worker ended: %v: %s", err, errs.String())
	}
}
