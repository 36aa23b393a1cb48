//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package aof

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

func (d dir) Lock() (io.Closer, error) {
	f, err := d.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
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
		// For a process that finds the directory in use. Failing to write the number, on a full
		// disk say, is no reason to fail.
		if f.Truncate(0) == nil {
			_, _ = f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
		}
		return held{f}, nil
	}
	defer f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		var pid [20]byte
		n, _ := f.ReadAt(pid[:], 0)
		return nil, fmt.Errorf("%w: %s, by process %s", ErrLocked, d.root.Name(), cmp.Or(string(pid[:n]), "unknown"))
	}
	return nil, &os.PathError{Op: "flock", Path: d.path(lockName), Err: err}
}

// held is a file that is locked.
type held struct{ *os.File }

// Close gives the lock up by name: a program that is just being started has the
// file too, until it runs, and would keep it.
func (h held) Close() error {
	err := syscall.Flock(int(h.Fd()), syscall.LOCK_UN)
	return errors.Join(err, h.File.Close())
}
