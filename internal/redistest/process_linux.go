package redistest

import "syscall"

// diesWithParent makes the kernel kill a child when the thread that started it
// ends, so when the test's process ends.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
