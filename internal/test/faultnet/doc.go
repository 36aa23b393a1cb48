// Package faultnet injects the faults of a network: a TCP proxy on loopback
// between a client and a server under test.
//
//	proxy := faultnet.New(t, server.Addr())
//	client := dial(proxy.Addr())
//	proxy.Blackhole(faultnet.ToClient) // requests arrive, answers don't
//	…
//	proxy.Heal() // what was held arrives now, late
//
// A fault acts from the moment its method returns, on present and on later
// connections; bytes that are passing at that moment may still arrive. Faults
// add up: a proxy can delay and refuse at the same time. All methods may be
// called from any goroutine, except that New and Accept may end the test and
// so belong to the test's own.
//
// To kill, stop or restart the server itself, see package redistest.
package faultnet
