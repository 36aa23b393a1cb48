//go:build !linux

package proxy

import "syscall"

// limitUnacknowledged does nothing: the system's own limit holds, which may be
// many minutes.
func limitUnacknowledged(string, string, syscall.RawConn) error { return nil }
