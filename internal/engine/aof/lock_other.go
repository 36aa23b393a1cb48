//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd && !windows

package aof

import (
	"errors"
	"fmt"
	"io"
	"runtime"
)

func (dir) Lock() (io.Closer, error) {
	return nil, fmt.Errorf("aof: a directory can't be locked on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
