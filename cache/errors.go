package cache

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalidKey is matched by the error for a key that [Options.CheckKey] or
	// the length of its text rules out. Nothing was asked for.
	ErrInvalidKey = errors.New("cache: invalid key")

	// ErrTooLarge is matched by the error for a value that has more bytes than
	// [Options.MaxBytes]. It was not stored.
	ErrTooLarge = errors.New("cache: value is too large")

	// ErrOverloaded is matched when a load found no place among
	// [Options.MaxLoads] within [Options.LoadTimeout]. The source was not asked.
	ErrOverloaded = errors.New("cache: too many loads")

	// ErrSourceDown is matched when the source has failed [Options.Failures]
	// times in a row, and is left alone for a while. It was not asked.
	ErrSourceDown = errors.New("cache: the source is down")

	// ErrPanicked is matched by the error of a load that panicked; see
	// [PanicError].
	ErrPanicked = errors.New("cache: the loader panicked")

	// ErrClosed is returned by calls on a closed [Cache].
	ErrClosed = errors.New("cache: closed")

	// errServerDown stands for a server that was not asked.
	errServerDown = errors.New("cache: the server can't be reached")
)

// A PanicError is what a loader panicked with. It matches [ErrPanicked].
type PanicError struct {
	// Value is what panic was called with.
	Value any
	// Stack is that of the loader.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("%v: %v", ErrPanicked, e.Value) }

// Is reports whether target is [ErrPanicked].
func (e *PanicError) Is(target error) bool { return target == ErrPanicked }

// Unwrap returns the value when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
