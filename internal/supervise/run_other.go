//go:build !unix

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// GuardMain does nothing: there is no guard on this system.
func GuardMain() {}

// Signals lists what a caller of [Run] should catch. ^C reaches the command
// by itself, because it shares the console.
func Signals() []os.Signal { return []os.Signal{os.Interrupt} }

// Run starts c, waits until it ends, and kills it when the lease is about to
// run out or is lost. There is no SIGTERM here, so it has no grace: it is
// killed at the deadline less margin. It outlives this process when this
// process is killed, and what it started outlives it.
//
// It returns an error that matches [ErrStart] when the command didn't start.
func Run(lease Lease, c Command, signals <-chan os.Signal) (Outcome, error) {
	p := plan{margin: c.Times.Margin, deadline: instantOf(lease.Deadline())}
	if do, _ := p.step(now()); do != leave {
		return Outcome{Lost: true}, nil
	}
	cmd := &exec.Cmd{Path: c.Path, Args: c.Args, Env: c.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := cmd.Start(); err != nil {
		return Outcome{}, fmt.Errorf("%w: %w", ErrStart, err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	poll := time.NewTicker(c.Times.Poll)
	defer poll.Stop()
	lost := lease.Done()
	known := lease.Deadline()
	for {
		select {
		case err := <-exited:
			var failed *exec.ExitError
			if err != nil && !errors.As(err, &failed) {
				return Outcome{}, err
			}
			return Outcome{Status: cmd.ProcessState.ExitCode(), Lost: p.ending()}, nil
		case <-signals: // the command has got it too
		case <-lost:
			lost = nil
			p.lost = true
			_ = cmd.Process.Kill() // it may have ended
		case <-poll.C:
			if d := lease.Deadline(); !d.Equal(known) {
				known = d
				p.deadline = instantOf(d)
			}
			if do, _ := p.step(now()); do != leave {
				p.lost = true
				_ = cmd.Process.Kill() // it may have ended
			}
		}
	}
}
