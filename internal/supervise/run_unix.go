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

// Run starts c, waits until it ends, and ends it when the lease is about to
// run out or is lost: see the package comment. What arrives on signals is
// forwarded to the command. The caller still holds the lease afterwards,
// unless the outcome says that it was lost, and releases it.
//
// It returns an error that matches [ErrStart] when the command didn't start,
// and another one when the guard failed or was killed from outside; then the
// command has been killed.
// Call it once at a time: it makes this process the parent of orphans.
func Run(lease Lease, c Command, signals <-chan os.Signal) (Outcome, error) {
	if time.Until(lease.Deadline()) <= c.Times.Grace+c.Times.Margin {
		return Outcome{Lost: true}, nil // it would have to end before it began
	}
	r := &runner{lease: lease, times: c.Times, mine: map[int]bool{}}
	for _, pid := range children() {
		r.mine[pid] = true // an exec by a shell with background jobs leaves us those
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
	mine    map[int]bool // children that have nothing to do with the command
	guard   *exec.Cmd
	control *os.File    // to the guard; its death is our death to the guard
	reports chan record // from the guard; closed when it died without one
	told    time.Time   // the deadline that the guard knows
	overdue bool        // the guard didn't report in time, and was killed for it
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
	self := "/proc/self/exe" // right even after the file was replaced
	if runtime.GOOS != "linux" {
		if self, err = os.Executable(); err != nil {
			return err
		}
	}
	// The guard inherits its two ends under their own numbers. Cmd.ExtraFiles
	// would put them at 3 and 4, over descriptors that the caller meant for
	// the command.
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
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // a signal to our group must not reach it
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
	r.reports = make(chan record, 1)
	go func() {
		defer close(r.reports)
		defer func() { _ = reportR.Close() }()
		if rec, err := readRecord(reportR); err == nil {
			r.reports <- rec
		}
	}()
	r.tell(recGroup, int64(unix.Getpgrp()))
	r.tell(recGrace, int64(r.times.Grace))
	r.tell(recMargin, int64(r.times.Margin))
	r.tellDeadline()
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
	backstop := time.NewTimer(r.untilBackstop())
	defer backstop.Stop()
	lost := r.lease.Done()
	for {
		select {
		case rec, ok := <-r.reports:
			return r.finish(rec, ok)
		case sig := <-signals:
			if s, ok := sig.(syscall.Signal); ok && !fromTerminal(s) {
				r.tell(recSignal, int64(s))
			}
		case <-poll.C:
			if r.tellDeadline() {
				backstop.Reset(r.untilBackstop())
			}
		case <-lost:
			lost = nil
			r.tell(recLost, 0)
			backstop.Reset(min(r.times.Margin/2, r.untilBackstop()))
		case <-backstop.C:
			// The guard should have reported long ago. Kill it, and with it
			// the command; the rest comes to us.
			r.overdue = true
			_ = r.guard.Process.Kill()
		}
	}
}

func (r *runner) untilBackstop() time.Duration {
	return time.Until(r.told.Add(-r.times.Margin / 2))
}

// tellDeadline tells the guard of a deadline that has moved.
func (r *runner) tellDeadline() bool {
	deadline := r.lease.Deadline()
	if deadline.Equal(r.told) {
		return false
	}
	// Converted once, when it moved: converted again after the machine
	// slept, the same time would come out later.
	r.tell(recDeadline, int64(instantOf(deadline)))
	r.told = deadline
	return true
}

// tell may fail or block when the guard is dead or stopped; then reports or
// the backstop ends the wait.
func (r *runner) tell(k kind, value int64) {
	_ = r.control.SetWriteDeadline(time.Now().Add(r.times.Margin / 2))
	_ = writeRecord(r.control, k, value)
}

func (r *runner) finish(rec record, reported bool) (Outcome, error) {
	waitErr := r.guard.Wait()
	if !reported {
		r.sweep()
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

// sweep kills what the dead guard left to us, and returns when nothing is
// left. The kernel has killed the command itself.
func (r *runner) sweep() {
	wait := time.Millisecond
	for killChildren(r.mine) > 0 {
		time.Sleep(wait)
		wait = min(2*wait, 50*time.Millisecond)
		for _, pid := range children() {
			if !r.mine[pid] {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
}
