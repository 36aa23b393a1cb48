// Package ports hands out TCP ports of 127.0.0.1 to tests, each to one of all processes
// of tests until it is given back. A test server that is killed and started again, or a
// proxy that refuses connections for a while, finds its port free.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports are below the range that the kernel hands out by itself. The bus of a cluster's
// node is 10,000 ports above its own, below that range too.
const first, count = 10_000, 10_000

// A Port is reserved until Release.
type Port struct {
	Number int

	// lock is the UDP port of the same number, which only one process can have: none of
	// our servers speaks UDP, and the kernel gives it back when the process ends.
	lock net.PacketConn
}

// Reserve returns a port that nobody else has reserved. A process that reserves none may
// listen on it all the same.
func Reserve() (*Port, error) {
	var err error
	for range 1000 {
		n := first + rand.IntN(count)
		var lock net.PacketConn
		if lock, err = net.ListenPacket("udp4", Addr(n)); err == nil { //nolint:noctx // it does not wait
			return &Port{Number: n, lock: lock}, nil
		}
	}
	return nil, fmt.Errorf("ports: none is free: %w", err)
}

// Release gives the port back. Releasing it again, or a nil port, does nothing.
func (p *Port) Release() {
	if p != nil {
		_ = p.lock.Close()
	}
}

// Addr returns the address of the port with a number, as host:port.
func Addr(number int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(number)) }
