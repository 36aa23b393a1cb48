// Package threadtime tells tests how long the processor worked for them: others on the
// machine don't matter then.
package threadtime

import (
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// Lock keeps a test on one thread, whose time Now tells, until it ends.
func Lock(tb testing.TB) {
	tb.Helper()
	runtime.LockOSThread()
	tb.Cleanup(runtime.UnlockOSThread)
}

// Now is the processor's time that the calling thread has used.
func Now() time.Duration {
	const threadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&ts)), 0) //nolint:errcheck,gosec // it can't fail, and writes to ts
	return time.Duration(ts.Nano())
}
