//go:build !unix

package redistest

import (
	"errors"
	"os"
)

// Suspend stops a process; not here.
func Suspend(*os.Process) error { return errors.ErrUnsupported }

// Resume lets it go on.
func Resume(*os.Process) error { return errors.ErrUnsupported }
