package lua

import (
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// lockThread keeps the test on one thread, whose time threadTime tells.
func lockThread(t *testing.T) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
}

// threadTime is the processor's time that the calling thread has used.
func threadTime() time.Duration {
	const threadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&ts)), 0) //nolint:errcheck // it can't fail
	return time.Duration(ts.Nano())
}
