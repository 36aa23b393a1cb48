//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package aof

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

func (d dir) Lock() (io.Closer, error) {
	f, err := os.OpenFile(d.path(lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, d)
	}
	return nil, &os.PathError{Op: "flock", Path: d.path(lockName), Err: err}
}
