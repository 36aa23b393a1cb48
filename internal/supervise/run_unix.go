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
	reports chan record // from the guard; closed when it is dead
	command int         // its pid, as far as the guard has said
	unsent  []record    // for the guard, in order
	asked   time.Time   // the newest deadline, sent or not
	told    time.Time   // the deadline that the guard knows
	lostAt  time.Time   // when the lease was lost
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
	r.reports = make(chan record, 2) // all that it ever says
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
	r.told = r.asked // whether it got it or not: without one it starts nothing
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
			// The guard should have reported long ago. Kill it, and with it
			// the command; the rest comes to us.
			r.overdue = true
			_ = r.guard.Process.Kill()
		}
	}
}

// backstop is when the guard must have reported.
func (r *runner) backstop() time.Time {
	at := r.told.Add(-r.times.Margin / 2)
	if lost := r.lostAt.Add(r.times.Margin / 2); !r.lostAt.IsZero() && lost.Before(at) {
		return lost
	}
	return at
}

// tellDeadline tells the guard of a deadline that has moved, and of what it
// could not be told before.
func (r *runner) tellDeadline() {
	deadline := r.lease.Deadline()
	if deadline.Equal(r.asked) {
		r.flush()
		return
	}
	r.asked = deadline
	// Converted once, when it moved: converted again after the machine
	// slept, the same time would come out later.
	r.tell(recDeadline, int64(instantOf(deadline)))
}

func (r *runner) tell(k kind, value int64) {
	r.unsent = append(r.unsent, record{k, value})
	r.flush()
}

// flush fails when the guard is stopped or dead, or when this process stood
// still meanwhile. What is unsent waits for the next time. If that never
// comes, reports or the backstop ends the wait.
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
