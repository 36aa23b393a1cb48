package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
)

// Exit codes, from sysexits.h where it has the condition. Otherwise `redoubt lock` exits with the status
// of its command, or with 128+n if signal n killed it.
const (
	exitFault       = 1   // errors without a code of their own
	exitUsage       = 64  // EX_USAGE: flags, arguments, configuration
	exitData        = 65  // EX_DATAERR: a directory or a file is damaged, or a key has another type
	exitUnavailable = 69  // EX_UNAVAILABLE: no server answers, or it refuses us
	exitLost        = 70  // EX_SOFTWARE: the lock was lost, the command was ended
	exitOS          = 71  // EX_OSERR: the guard failed, the command was ended
	exitExists      = 73  // EX_CANTCREAT: the file or the key exists already
	exitBusy        = 75  // EX_TEMPFAIL: the lock is held, the limit reached, the queue empty
	exitCannotRun   = 126 // as in the shell: found, but can't be executed
	exitNotFound    = 127 // as in the shell: no such command
)

// An exitError is an error with its exit code. It prints nothing if err is nil.
type exitError struct {
	code int
	err  error
	hint bool // point to --help
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func fail(code int, err error) error { return &exitError{code: code, err: err} }

func failf(code int, format string, args ...any) error {
	return &exitError{code: code, err: fmt.Errorf(format, args...)}
}

// usagef returns an error for a wrong value.
func usagef(format string, args ...any) error { return failf(exitUsage, format, args...) }

// misusef returns an error for a malformed command line.
func misusef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...), hint: true}
}

// packageName matches the prefix of the root package's errors, which is also the name of the program.
var packageName = regexp.MustCompile(`(^|: |\()(?:redoubt: )+`)

// textOf returns the text of an error without that prefix.
func textOf(err error) string { return packageName.ReplaceAllString(err.Error(), "$1") }

// report prints err and returns the exit code for it.
func report(stderr io.Writer, look style, err error) int {
	if err == nil {
		return 0
	}
	code, hint := exitFault, false
	if e, ok := errors.AsType[*exitError](err); ok {
		code, hint = e.code, e.hint
		if e.err == nil {
			return code
		}
	}
	_, _ = fmt.Fprintln(stderr, look.bad("redoubt:"), textOf(err))
	if hint {
		_, _ = fmt.Fprintln(stderr, "Try `redoubt --help`, or `redoubt COMMAND --help`.")
	}
	return code
}
