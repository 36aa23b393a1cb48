package cache

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalidKey is matched when [Options.CheckKey] or the length of its text rejects a key.
	// Nothing was sent.
	ErrInvalidKey = errors.New("cache: invalid key")

	// ErrTooLarge is matched when a value has more bytes than [Options.MaxBytes]. It was not
	// stored.
	ErrTooLarge = errors.New("cache: value is too large")

	// ErrOverloaded is matched when [Options.MaxLoads] other loads were running for all of
	// [Options.LoadTimeout]. The source was not asked.
	ErrOverloaded = errors.New("cache: too many loads")

	// ErrSourceDown is matched when the source has failed [Options.Failures] times in a row and
	// gets no calls for a while. It was not asked.
	ErrSourceDown = errors.New("cache: the source is down")

	// ErrPanicked is matched by the error of a load that panicked; see
	// [PanicError].
	ErrPanicked = errors.New("cache: the loader panicked")

	// errServerDown is the error of a command that was not sent because the server is down.
	errServerDown = errors.New("cache: the server can't be reached")
)

// A PanicError is the error of a loader that panicked. It matches [ErrPanicked].
type PanicError struct {
	// Value is the argument of panic.
	Value any
	// Stack is the stack of the loader.
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("%v: %v", ErrPanicked, e.Value) }

// Is reports whether target is [ErrPanicked].
func (e *PanicError) Is(target error) bool { return target == ErrPanicked }

// Unwrap returns Value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
