package socket

import (
	"syscall"
	"unsafe"
)

const supported = true

// read is one call of read(2) on a socket that doesn't block.
func read(fd uintptr, p []byte) (int, error) {
	if len(p) > direct {
		return syscall.Read(int(fd), p)
	}
	return call(syscall.SYS_READ, fd, p)
}

// write is one call of write(2) on a socket that doesn't block.
func write(fd uintptr, p []byte) (int, error) {
	if len(p) > direct {
		return syscall.Write(int(fd), p)
	}
	return call(syscall.SYS_WRITE, fd, p)
}

func cork(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CORK, 1)
}

func call(number, fd uintptr, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))) //nolint:gosec // p is not empty and lives on
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
