// Package redistest runs real redis-server processes for tests, on free
// loopback ports and unix sockets only. They end with the test.
//
//   - [Start] runs one server for one test, which may pause, kill and restart
//     it.
//   - [StartCluster] runs a Redis Cluster of them.
//   - [StartSentinels] runs Sentinels that watch some.
//   - [Each] runs one test on every kind of back end, real and embedded. This
//     is what the suites of the primitives use.
//
// The environment variable REDIS_SERVER names another redis-server than the one of PATH,
// or a valkey-server.
//
// A test whose redis-server is missing fails and says what to install. It is
// never skipped: a suite that skips what it can't run proves nothing. make test leaves clusters and
// Sentinels, which take many processes, to make test-all.
//
// The package knows no client. It hands out addresses. Functions that take a
// testing.TB, and all methods of what they return, end the test when they
// fail, so they must be called from the test's own goroutine; the methods that
// return an address may be called from anywhere.
//
// On Linux a server dies with the test's process, however that ends, by the
// parent-death signal. The signal is bound to the thread that started the
// server: a test must not start one on a thread that it locked and gives up.
// Elsewhere a server outlives a test process that is killed.
package redistest
