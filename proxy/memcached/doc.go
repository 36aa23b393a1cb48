// Package memcached is a proxy for memcached's ASCII protocol: a [Pool] of servers
// that clients see as one.
//
// A ring gives each key a server, as twemproxy would. All clients share one
// connection to each server. Requests go out as the bytes that came, replies come
// back as the bytes that a server sent, and retrievals of keys of several servers
// are split and joined.
//
//	p, err := memcached.New(memcached.Options{Servers: servers})
//	…
//	err = p.Serve(listener)
//
// The commands are get, gets, gat, gats, set, add, replace, append, prepend, cas,
// delete, incr, decr, touch, flush_all, verbosity, version, stats and quit. Those
// without a key go to all servers: flush_all and verbosity succeed if they do on
// each, version is one of theirs, and stats are their sums. "stats proxy" tells of
// the pool. Meta commands and whatever concerns one server's inside are answered
// with ERROR, the binary protocol with an error of its own.
//
// # What is promised
//
//   - What a server answers, a pool answers, but for the order of values from
//     several servers and the numbers for cas, which are each server's own.
//     (TestDirect)
//   - Answers come in the order of the commands. (TestOrder)
//   - What a client sends can't make the answers of others its own: a line is sent on
//     only if any server takes it for the one command that it looks like. A value
//     whose line was refused is thrown away, where memcached takes it for commands.
//     (TestRefusals, FuzzRequests, TestDesynchronised)
//   - A server that is away costs its own keys an error that names it and says
//     whether the command may have run; no value ever comes to another key or client.
//     (TestNothingCrosses, TestKilled)
//   - A client that has to wait, for its own answers or for room at a server, holds up
//     no other. (TestStepAside, TestFullServer, TestSlowClient)
//   - A server that stands still costs its own keys an error within Timeout, and
//     later ones an error at once. A late reply is thrown away. (TestFrozen,
//     TestLateReply)
//   - Unless FailureLimit is set, the ring never changes. If it is, a server is back
//     when RetryTimeout is over and it has answered. (TestKilled, TestEjection)
//   - Other servers take over under the clients, who notice nothing, and no command
//     overtakes another of its client meanwhile. (TestChange, TestChangeOrder,
//     TestRetire, TestRetireUsed)
//   - A retrieval is answered in full or with one error. (TestKilled,
//     TestNothingCrosses)
//   - No command is closed upon, except by quit. (TestRefusals, TestQuit)
//   - What one client may have under way is bounded, in commands and in bytes, and
//     one that doesn't read is disconnected. (TestMaxInFlight, TestMaxClientBytes,
//     TestSlowClient, TestIdleClient)
//   - Shutdown answers what was read. (TestShutdown)
package memcached
