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

// untilSignal returns a context that the first terminating signal cancels, and a function that returns
// the exit code for that signal, or 0. It stops reading signals when stop returns.
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

// endedBy returns the exit code of a process that sig terminates, or 0 for other signals.
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

// atOnce is how long the process may take to close its clients and save its data after the second
// signal. It is ample unless something hangs.
const atOnce = 250 * time.Millisecond

// endingSignals passes on the signals that end the server. It calls end atOnce after the second one,
// unless stop is called before: a command that never returns holds the locks that an orderly shutdown
// waits for.
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

// endAtOnce ends the process as a crash would: acknowledged writes survive as the fsync policy promises.
func endAtOnce(f serveFlags, stderr io.Writer) {
	if log, err := newLog(stderr, f.logLevel, f.logFormat); err == nil {
		log.Error("ended by a second signal before clients were closed and data was saved")
	}
	os.Exit(exitFault)
}
