//go:build !linux

package socket

import (
	"errors"
	"net"
)

// Only Linux has what a Poll is made of; the others say so.

type detached struct{}

func (*detached) read([]byte) (int, error)     { return 0, errors.ErrUnsupported }
func (*detached) tryWrite([]byte) (int, error) { return 0, errors.ErrUnsupported }
func (*detached) attach() (net.Conn, error)    { return nil, errors.ErrUnsupported }
func (*detached) release()                     {}

// Detach returns an error.
func Detach(net.Conn) (*Conn, error) { return nil, errors.ErrUnsupported }

// An Event says that there is something to read on a connection.
type Event struct {
	ID   uint64
	Last bool
}

// A Poll waits for many detached connections at once.
type Poll struct{}

// NewPoll returns an error.
func NewPoll() (*Poll, error) { return nil, errors.ErrUnsupported }

// Add returns an error.
func (*Poll) Add(*Conn, uint64) error { return errors.ErrUnsupported }

// Wait returns an error.
func (*Poll) Wait(dst []Event) ([]Event, error) { return dst, errors.ErrUnsupported }

// Look returns an error.
func (*Poll) Look(dst []Event) ([]Event, error) { return dst, errors.ErrUnsupported }

// Close does nothing.
func (*Poll) Close() error { return nil }
