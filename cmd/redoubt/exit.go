package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
)

// Exit codes. Where sysexits.h has a name for the condition, it is that one's.
// `redoubt lock` exits with the command's own status otherwise, or 128+n when
// signal n killed it.
const (
	exitFault       = 1   // anything without a code of its own
	exitUsage       = 64  // EX_USAGE: flags, arguments, configuration
	exitData        = 65  // EX_DATAERR: a directory or a file of data is damaged, or a key holds something else
	exitUnavailable = 69  // EX_UNAVAILABLE: no server answers, or it refuses us
	exitLost        = 70  // EX_SOFTWARE: the lock was lost, the command was ended
	exitOS          = 71  // EX_OSERR: the guard failed, the command was ended
	exitExists      = 73  // EX_CANTCREAT: what is to be made is there already
	exitBusy        = 75  // EX_TEMPFAIL: others held the lock
	exitCannotRun   = 126 // as in the shell: found, but can't be executed
	exitNotFound    = 127 // as in the shell: no such command
)

// An exitError is an error with its exit code. One without a text has been
// told already, or needs no telling.
type exitError struct {
	code int
	err  error
	hint bool // the help text would help
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

// usagef is for values that only whoever gave them can put right.
func usagef(format string, args ...any) error { return failf(exitUsage, format, args...) }

// misusef is for a command line whose form is wrong.
func misusef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...), hint: true}
}

// packageName is how errors of the library's root package begin. It is the program's name too.
var packageName = regexp.MustCompile(`(^|: |\()(?:redoubt: )+`)

// textOf is an error behind the name of the program.
func textOf(err error) string { return packageName.ReplaceAllString(err.Error(), "$1") }

// report prints err and returns the exit code for it.
func report(stderr io.Writer, err error) int {
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
	_, _ = fmt.Fprintln(stderr, "redoubt:", textOf(err))
	if hint {
		_, _ = fmt.Fprintln(stderr, "Try `redoubt --help`, or `redoubt COMMAND --help`.")
	}
	return code
}
