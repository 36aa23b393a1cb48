package supervise

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// now reads CLOCK_BOOTTIME. Unlike the monotonic clock of package time it advances while the machine
// sleeps, as the lease on the server does.
func now() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // Linux has this clock since 2.6.39
	}
	return instant(ts.Nano())
}

// An alarm fires at an instant. A timer of package time would be late by the time that the machine
// slept.
type alarm struct {
	C    chan struct{}
	file *os.File
	fd   int
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarm{C: make(chan struct{}, 1), file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}
	go a.wait()
	return a, nil
}

func (a *alarm) wait() {
	var expirations [8]byte
	for {
		if _, err := a.file.Read(expirations[:]); err != nil {
			return
		}
		select {
		case a.C <- struct{}{}:
		default:
		}
	}
}

// set replaces the instant. One in the past fires at once. C may still hold an old event: check the
// clock.
func (a *alarm) set(at instant) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 1)))} // 0 would disarm
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil))
}

// instantOf converts a time of this process to the shared clock. It reads the clock first, so that a delay
// makes the result earlier, not later.
func instantOf(t time.Time) instant {
	n := now()
	return n.add(time.Until(t))
}
