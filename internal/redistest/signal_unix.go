//go:build unix

package redistest

import (
	"os"
	"syscall"
)

// Suspend stops a process of the test's, as a long pause of its machine would.
func Suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Resume lets it go on.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
