package poolhost

import "errors"

// The kinds of errors of this package. Each error's text says what was wrong; these only tell which
// kind it is.
var (
	// ErrConfig matches errors that the configuration file, or the options, must be changed for.
	ErrConfig = errors.New("poolhost: invalid configuration")
	// ErrListen matches errors of an address that can't be listened on.
	ErrListen = errors.New("poolhost: can't listen")
)

// A kindError has the text of err and matches kind too.
type kindError struct{ kind, err error }

func failure(kind, err error) error { return &kindError{kind, err} }

func (e *kindError) Error() string { return e.err.Error() }

func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }
