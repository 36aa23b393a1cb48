//go:build !unix

package socket

import "errors"

// supported: there is no way to write without waiting.
const supported = false

func read(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

func cork(uintptr) {}

func write(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }
