//go:build !linux

package redistest

import "syscall"

// Owned does nothing here: only Linux has a parent-death signal.
func Owned() *syscall.SysProcAttr { return nil }

// awaitStopped: here nobody says whether a process has stopped.
func awaitStopped(int) error { return nil }
