//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals lists what a caller of [Run] should catch and pass to it. It leaves
// out what is ignored at the time of the call, so that a command under nohup(1), or in
// the background of a script, ignores it too. Go's runtime keeps only SIGHUP and SIGINT
// ignored: a SIGQUIT that a script's shell had ignored is back at its default by then.
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

// fromTerminal reports whether the command has got sig already: what the
// terminal sends to its foreground process group reaches redoubt and the
// command alike, and a second ^C means "at once" to many programs. A kill -INT
// to redoubt's pid alone looks the same and isn't passed on either; use
// SIGTERM for that.
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
