//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package aof

import (
	"os"
	"syscall"
	"testing"
)

// Between fork and exec a child of this process has the file of the lock too. A
// directory that was closed meanwhile can be opened all the same.
func TestLockIsGivenUpThoughAChildHasIt(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // nothing was written
	d := dir{root: root}
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	childs, err := syscall.Dup(int(lock.(held).Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(childs) //nolint:errcheck // nothing was written
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
