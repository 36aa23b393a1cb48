package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// untilSignal returns a context that ends at the first signal that asks this
// process to end, and a function that gives the exit code for that signal, or
// 0. After stop, signals are for somebody else to read.
func untilSignal(signals <-chan os.Signal) (ctx context.Context, interrupted func() int, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case sig := <-signals:
				if code := endedBy(sig); code != 0 {
					cancel(fail(code, nil))
					return
				}
			}
		}
	}()
	interrupted = func() int {
		if e, ok := errors.AsType[*exitError](context.Cause(ctx)); ok {
			return e.code
		}
		return 0
	}
	return ctx, interrupted, func() {
		close(quit)
		<-done
		cancel(nil)
	}
}

// endedBy is the exit code of a process that sig ends before there is a
// command to pass it on to, or 0.
func endedBy(sig os.Signal) int {
	switch sig {
	case os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		if n, ok := sig.(syscall.Signal); ok {
			return 128 + int(n)
		}
		return exitFault
	}
	return 0
}

// untilInterrupted returns a context that the first signal ends; the second
// ends the process.
func untilInterrupted() (ctx context.Context, code func() int, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, interrupted, end := untilSignal(signals)
	forget := context.AfterFunc(ctx, func() { signal.Stop(signals) })
	return ctx, interrupted, func() {
		forget()
		signal.Stop(signals)
		end()
	}
}

// atOnce is how long the process has from the second signal on to close its clients and
// to save: more than that takes when nothing hangs.
const atOnce = 250 * time.Millisecond

// endingSignals passes on the signals that end the server. A moment after the second of
// them it calls end, unless stop is called before: a command that never returns holds its
// locks, and the ordinary end waits for those.
func endingSignals(caught <-chan os.Signal, end func()) (signals <-chan os.Signal, stop func()) {
	passed, done := make(chan os.Signal, 2), make(chan struct{})
	go func() {
		for range cap(passed) {
			select {
			case sig := <-caught:
				passed <- sig
			case <-done:
				return
			}
		}
		select {
		case <-time.After(atOnce):
			end()
		case <-done:
		}
	}()
	return passed, func() { close(done) }
}

// endAtOnce ends the process. What was acknowledged is saved as far as the durability
// promises after a crash.
func endAtOnce(f serveFlags, stderr io.Writer) {
	if log, err := newLog(stderr, f.logLevel, f.logFormat); err == nil {
		log.Error("ended by a second signal before all was closed and saved")
	}
	os.Exit(exitFault)
}
