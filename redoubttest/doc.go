// Package redoubttest is the conformance suite of [redoubt.Conn]. The author of a Conn runs it in a test:
//
//	func TestConformance(t *testing.T) {
//		redoubttest.Run(t, func(t *testing.T) redoubt.Conn { … })
//	}
//
// [Run] is for every Conn. [RunFaults] adds lost replies, silent servers and refused connections, for a
// Conn that uses a network. [RunCluster] adds redirects and moving slots, for a Conn that serves a
// cluster.
//
// The suite starts no servers and injects no faults by itself; the caller provides both. The tests use
// keys of their own, so a server may be shared and need not be empty.
package redoubttest
