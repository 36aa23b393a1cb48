package redoubt

import (
	"errors"
	"strings"
)

var (
	// ErrUnknownOutcome is matched by the error of a command that may have run although its reply never
	// came: the connection broke or the context ended after the command was sent, and its flags did not
	// allow sending it again, or that brought no reply either.
	ErrUnknownOutcome = errors.New("redoubt: outcome unknown: the command may have run")

	// ErrUnavailable is matched by the error of a call to a server that is known to be down: see
	// [Options].DownAfter. The error is an [UnavailableError] or wraps one, which says since when. Behind
	// `redoubt serve` it is a [ServerError] when serve says that one of its back ends is down. When the
	// error also matches ErrUnknownOutcome, the command was under way when the server went down, and may
	// have run.
	ErrUnavailable = errors.New("redoubt: server unavailable")

	// ErrClosed is returned by calls on a closed [Client].
	ErrClosed = errors.New("redoubt: client is closed")

	// ErrWrongType is matched by the error of a command for a key that holds another type of
	// value, also when a script ran the command.
	ErrWrongType = errors.New("redoubt: key of the wrong type")

	// ErrInvalidName is matched by the error for a name that can't be part of
	// a key: see [Client.Key].
	ErrInvalidName = errors.New("redoubt: invalid name")

	// ErrRefused is matched by the [ServerError] of a call whose promise a pool of `redoubt serve` could
	// not keep. The pool has done nothing. The error names the setting to change: hash_tag, which must be
	// "{}", auto_eject_hosts or distribution.
	ErrRefused = errors.New("redoubt: refused by the pool")

	// ErrInvalidPattern is matched by the error for an unfinished pattern, and ErrInvalidCursor by the
	// error for a cursor that no page returned: see [Client.NamesPage].
	ErrInvalidPattern = errors.New("redoubt: invalid pattern")
	ErrInvalidCursor  = errors.New("redoubt: invalid cursor")
)

// UnknownOutcome returns an error that matches [ErrUnknownOutcome] and cause: cause itself if it matches
// already. It is for implementations of [Conn].
func UnknownOutcome(cause error) error {
	if errors.Is(cause, ErrUnknownOutcome) {
		return cause
	}
	return &outcomeError{cause}
}

type outcomeError struct{ cause error }

func (e *outcomeError) Error() string { return ErrUnknownOutcome.Error() + ": " + inner(e.cause) }

func (e *outcomeError) Unwrap() []error { return []error{ErrUnknownOutcome, e.cause} }

// inner is the text of an error inside another error of this package, without the name of the package.
func inner(err error) string { return strings.TrimPrefix(err.Error(), "redoubt: ") }

// A ServerError is an error reply, with its text as the server sent it.
type ServerError string

func (e ServerError) Error() string { return string(e) }

// Code returns the first word of the error, like "WRONGTYPE" or "NOSCRIPT".
func (e ServerError) Code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// Is reports whether the server refused the command for the reason that target names:
// [ErrWrongType] or [ErrRefused]. Use [errors.Is].
func (e ServerError) Is(target error) bool {
	switch target {
	case ErrWrongType:
		// The scripts of Redoubt refuse a string of another form themselves. Before 7.0 Redis puts the error
		// of a command behind the place in the script that ran it.
		return strings.HasPrefix(string(e), "ERR redoubt: the key holds no ") || e.Code() == "WRONGTYPE" || strings.HasPrefix(string(e), "ERR Error running script") && strings.Contains(string(e), ": WRONGTYPE ")
	case ErrRefused: // package server writes these texts
		return strings.HasPrefix(string(e), "ERR redoubt: ") &&
			(strings.Contains(string(e), " needs a pool with hash_tag: ") || strings.Contains(string(e), " is refused where "))
	}
	return false
}

// IsCode reports whether err is a [ServerError] with the given code.
func IsCode(err error, code string) bool {
	var se ServerError
	return errors.As(err, &se) && se.Code() == code
}
