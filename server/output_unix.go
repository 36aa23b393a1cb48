//go:build unix

package server

import (
	"errors"
	"syscall"
)

// initTry prepares writeNow: one closure for the life of the connection.
func (o *output) initTry() {
	sc, ok := o.conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	o.raw = raw
	o.tryWrite = func(fd uintptr) bool {
		for {
			o.tryN, o.tryErr = syscall.Write(int(fd), o.try)
			if !errors.Is(o.tryErr, syscall.EINTR) {
				return true
			}
		}
	}
}

// writeNow writes as much of p as the socket takes without waiting.
func (o *output) writeNow(p []byte) (int, error) {
	if o.raw == nil {
		return 0, nil
	}
	o.try = p
	err := o.raw.Write(o.tryWrite)
	n, tryErr := o.tryN, o.tryErr
	o.try, o.tryN, o.tryErr = nil, 0, nil
	if err != nil {
		return 0, err
	}
	if errors.Is(tryErr, syscall.EAGAIN) {
		return 0, nil
	}
	return max(n, 0), tryErr
}
