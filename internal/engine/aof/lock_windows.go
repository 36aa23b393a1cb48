package aof

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

const errSharingViolation = syscall.Errno(32)

// Lock opens a file that no other process may have open.
func (d dir) Lock() (io.Closer, error) {
	name, err := syscall.UTF16PtrFromString(d.path(lockName))
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errSharingViolation) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, d.root.Name())
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: d.path(lockName), Err: err}
	}
	return os.NewFile(uintptr(h), d.path(lockName)), nil
}
