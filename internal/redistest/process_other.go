//go:build !linux

package redistest

import "syscall"

// diesWithParent: there is no parent-death signal here.
func diesWithParent() *syscall.SysProcAttr { return nil }

// awaitStopped: here nobody says whether a process has stopped.
func awaitStopped(int) error { return nil }
