//go:build !linux

package redistest

import "syscall"

// Owned is about Linux: elsewhere there is no parent-death signal.
func Owned() *syscall.SysProcAttr { return nil }

// awaitStopped: here nobody says whether a process has stopped.
func awaitStopped(int) error { return nil }
