//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals returns the signals that a caller of [Run] should catch and pass to it. It leaves out signals that
// are ignored at the time of the call, so that a command under nohup(1), or in the background of a script,
// ignores them too. Go's runtime keeps only SIGHUP and SIGINT ignored: it resets a SIGQUIT that a script's
// shell ignored to its default.
func Signals() []os.Signal {
	var sigs []os.Signal
	for _, sig := range []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	} {
		if !signal.Ignored(sig) {
			sigs = append(sigs, sig)
		}
	}
	return sigs
}

// fromTerminal reports whether the command already got sig from the terminal. A terminal signals its whole
// foreground process group, redoubt and the command alike, and many programs exit at once on a second ^C.
// A kill -INT to redoubt alone looks the same and is not passed on either: use SIGTERM for that.
func fromTerminal(sig syscall.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT && sig != syscall.SIGWINCH {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false // no terminal
	}
	defer func() { _ = tty.Close() }()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}
