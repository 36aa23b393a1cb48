//go:build !unix

package handover

import (
	"context"
	"errors"
)

// A Successor is a process that can take the place of this one.
type Successor struct{ Pid int }

// Start returns an error: sockets can't be handed over here.
func (s *Sockets) Start(context.Context) (*Successor, error) { return nil, errors.ErrUnsupported }

// Yield does nothing: there is no Successor here.
func (n *Successor) Yield() error { return nil }

// Stop does nothing.
func (n *Successor) Stop() {}

func closeOnExec(...int) {}
