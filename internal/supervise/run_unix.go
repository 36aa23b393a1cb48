//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Run starts c and waits until it ends. It ends c when the lease is about to run out or is lost: see the
// package comment. It forwards signals to the command. Afterwards the caller still holds the lease, unless
// the outcome is Lost, and must release it.
//
// It returns an error that matches [ErrStart] if the command did not start, and another error if the guard
// failed or was killed; the command was killed then. Only one call at a time may run, because it makes this
// process the parent of orphans.
func Run(lease Lease, c Command, signals <-chan os.Signal) (Outcome, error) {
	if time.Until(lease.Deadline()) <= c.Times.Grace+c.Times.Margin {
		return Outcome{Lost: true}, nil // no time is left to run it
	}
	r := &runner{lease: lease, times: c.Times, mine: map[int]bool{}}
	for _, pid := range children() {
		r.mine[pid] = true // a shell with background jobs that execs us leaves us its children
	}
	if err := adoptOrphans(); err != nil {
		return Outcome{}, err
	}
	if err := r.startGuard(c); err != nil {
		return Outcome{}, err
	}
	defer func() { _ = r.control.Close() }()
	return r.watch(signals)
}

type runner struct {
	lease   Lease
	times   Times
	mine    map[int]bool // children that are not descendants of the command
	guard   *exec.Cmd
	control *os.File    // to the guard; the guard takes its end for our death
	reports chan record // from the guard; closed when the guard is dead
	command int         // its pid, once the guard has reported it
	unsent  []record    // for the guard, in order
	asked   time.Time   // the newest deadline, sent or not
	told    time.Time   // the deadline last sent to the guard
	lostAt  time.Time   // when the lease was lost
	overdue bool        // the guard did not report in time and was killed
}

func (r *runner) startGuard(c Command) error {
	controlR, controlW, err := os.Pipe()
	if err != nil {
		return err
	}
	reportR, reportW, err := os.Pipe()
	if err != nil {
		return err
	}
	self := "/proc/self/exe" // works even if the file was replaced
	if runtime.GOOS != "linux" {
		if self, err = os.Executable(); err != nil {
			return err
		}
	}
	// The guard inherits its two pipe ends under their own numbers. Cmd.ExtraFiles would move them to 3 and
	// 4, over descriptors that the caller passes to the command.
	controlFD, err := inheritable(controlR)
	if err != nil {
		return err
	}
	reportFD, err := inheritable(reportW)
	if err != nil {
		return err
	}
	r.guard = &exec.Cmd{
		Path: self,
		Args: append([]string{guardName, strconv.Itoa(controlFD), strconv.Itoa(reportFD), c.Path}, c.Args...),
		Env:  c.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // signals to our group must not reach the guard
	}
	err = r.guard.Start()
	_ = controlR.Close()
	_ = reportW.Close()
	if err != nil {
		_ = controlW.Close()
		_ = reportR.Close()
		return fmt.Errorf("supervise: guard not started: %w", err)
	}
	r.control = controlW
	r.reports = make(chan record, 2) // the guard sends at most two records
	go func() {
		defer close(r.reports)
		defer func() { _ = reportR.Close() }()
		for {
			rec, err := readRecord(reportR)
			if err != nil {
				return
			}
			r.reports <- rec
		}
	}()
	r.tell(recGroup, int64(unix.Getpgrp()))
	r.tell(recGrace, int64(r.times.Grace))
	r.tell(recMargin, int64(r.times.Margin))
	r.tellDeadline()
	r.told = r.asked // even if it was not sent: without a deadline the guard starts nothing
	return nil
}

// inheritable lets f survive an exec under its own number.
func inheritable(f *os.File) (int, error) {
	conn, err := f.SyscallConn() // f.Fd would make it blocking
	if err != nil {
		return 0, err
	}
	var fd int
	var setErr error
	err = conn.Control(func(p uintptr) {
		fd = int(p)
		_, setErr = unix.FcntlInt(p, unix.F_SETFD, 0)
	})
	return fd, errors.Join(err, setErr)
}

func (r *runner) watch(signals <-chan os.Signal) (Outcome, error) {
	poll := time.NewTicker(r.times.Poll)
	defer poll.Stop()
	backstop := time.NewTimer(0)
	defer backstop.Stop()
	lost := r.lease.Done()
	for {
		if !r.overdue {
			backstop.Reset(time.Until(r.backstop()))
		}
		select {
		case rec, ok := <-r.reports:
			if rec.kind == recStarted {
				r.command = int(rec.value)
				continue
			}
			return r.finish(rec, ok)
		case sig := <-signals:
			if s, ok := sig.(syscall.Signal); ok && !fromTerminal(s) {
				r.tell(recSignal, int64(s))
			}
		case <-poll.C:
			r.tellDeadline()
		case <-lost:
			lost = nil
			r.lostAt = time.Now()
			r.tell(recLost, 0)
		case <-backstop.C:
			// The guard should have reported by now. Kill it, and thereby the command; its other
			// processes become our children.
			r.overdue = true
			_ = r.guard.Process.Kill()
		}
	}
}

// backstop is the time by which the guard must have reported.
func (r *runner) backstop() time.Time {
	at := r.told.Add(-r.times.Margin / 2)
	if lost := r.lostAt.Add(r.times.Margin / 2); !r.lostAt.IsZero() && lost.Before(at) {
		return lost
	}
	return at
}

// tellDeadline sends the guard a deadline that has moved, and unsent records.
func (r *runner) tellDeadline() {
	deadline := r.lease.Deadline()
	if deadline.Equal(r.asked) {
		r.flush()
		return
	}
	r.asked = deadline
	// Convert it only once, when it has moved: after the machine slept, the same time would convert to a
	// later instant.
	r.tell(recDeadline, int64(instantOf(deadline)))
}

func (r *runner) tell(k kind, value int64) {
	r.unsent = append(r.unsent, record{k, value})
	r.flush()
}

// flush sends the unsent records. It fails if the guard is stopped or dead, or if this process was stopped
// meanwhile. Records that it could not send wait for the next call; without one, reports or the backstop end
// the wait.
func (r *runner) flush() {
	for len(r.unsent) > 0 {
		_ = r.control.SetWriteDeadline(time.Now().Add(r.times.Margin / 2))
		if err := writeRecord(r.control, r.unsent[0].kind, r.unsent[0].value); err != nil {
			return
		}
		r.unsent = r.unsent[1:]
	}
	r.told = r.asked
}

func (r *runner) finish(rec record, reported bool) (Outcome, error) {
	waitErr := r.guard.Wait()
	if !reported {
		sweep(r.command, r.mine)
		if r.overdue {
			return Outcome{Status: 128 + int(syscall.SIGKILL), Lost: true}, nil
		}
		err := fmt.Errorf("supervise: the guard ended (%w); the command was killed", waitErr)
		if waitErr == nil {
			err = errors.New("supervise: the guard ended; the command was killed")
		}
		return Outcome{Status: 128 + int(syscall.SIGKILL)}, err
	}
	if rec.kind == recNoStart {
		return Outcome{}, fmt.Errorf("%w: %w", ErrStart, syscall.Errno(rec.value))
	}
	return Outcome{Status: int(rec.value), Lost: rec.kind == recEnded}, nil
}
