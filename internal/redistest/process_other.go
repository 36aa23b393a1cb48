//go:build !linux

package redistest

import "syscall"

// diesWithParent: there is no parent-death signal here.
func diesWithParent() *syscall.SysProcAttr { return nil }
