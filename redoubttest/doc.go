// Package redoubttest is the conformance suite of [redoubt.Conn]. Whoever
// writes a Conn runs it in a test of their own:
//
//	func TestConformance(t *testing.T) {
//		redoubttest.Run(t, func(t *testing.T) redoubt.Conn { … })
//	}
//
// [Run] is for every Conn. [RunFaults] adds lost replies, silent servers and
// refused connections, for a Conn that goes over a network, and [RunCluster]
// redirects and moving slots, for one that serves a cluster. A Conn that has no
// network leaves the latter two out.
//
// The suite starts no servers and injects no faults by itself: those come from
// the caller. Tests use keys of their own, so that a server may be shared and
// need not be empty.
package redoubttest
