// Package outages kills servers under everything at once: `redoubt lock`, a Go service and a
// Python worker take the same locks through one pool of three servers, and two caches of the
// Go service with a level in the process read and invalidate the same keys.
//
//	make outages [DURATION=1h] [EVERY=1m] [SEED=1]
//
// A server is killed every minute and started again some seconds later, with the data that it
// had. The run fails when
//
//   - two hold a lock at once, or a fencing token is no greater than the one before;
//   - someone waits longer than a second for a lock that is free, on a server that answers;
//   - a cache returns what was invalidated more than 100 ms before;
//   - one of the three stops getting locks.
//
// Whether a lock is free is read from its server directly, fifty times a second. All of the
// package is in test files, so that no program builds it.
package outages
