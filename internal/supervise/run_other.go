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

// Run starts c and waits until it ends. It kills c when the lease is about to run out or is lost: without
// SIGTERM there is no grace, only the margin before the deadline. c survives if this process is killed, and
// the descendants of c survive c.
//
// It returns an error that matches [ErrStart] if the command did not start.
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
		case <-signals: // the command got it, too
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
