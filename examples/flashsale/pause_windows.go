package main

import (
	"errors"
	"os"
)

// Windows has no signal that stops a process, so there no shop is stopped.
func pause(*os.Process) error  { return errors.ErrUnsupported }
func resume(*os.Process) error { return errors.ErrUnsupported }
