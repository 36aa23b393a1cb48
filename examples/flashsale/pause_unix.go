//go:build unix

package main

import (
	"os"
	"syscall"
)

// pause stops a process as a debugger, a suspended virtual machine or a full host does; resume lets it
// go on.
func pause(p *os.Process) error  { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
