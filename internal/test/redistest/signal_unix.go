//go:build unix

package redistest

import (
	"os"
	"syscall"
)

// Suspend stops a process of the test's, as a long pause of its machine would.
// On Linux it has stopped, with all of its threads, when Suspend returns.
func Suspend(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStopped(p.Pid)
}

// Resume lets it go on.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
