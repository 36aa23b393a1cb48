//go:build !linux

package main

import (
	"errors"
	"net"

	"github.com/redoubt-go/redoubt/internal/engine"
)

// accept serves e to whoever connects, until the listener is closed. Here
// commands of different connections run in any order, so that the harness may
// hang now and then: serve_linux.go says why.
func accept(ln net.Listener, e *engine.Engine) error {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go e.ServeConn(conn) //nolint:errcheck // that a client left is no fault here
	}
}
