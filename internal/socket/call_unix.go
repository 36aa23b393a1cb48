//go:build unix && !linux

package socket

import "syscall"

const supported = true

func read(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

func cork(uintptr) {}

func write(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }
