// Package memcached is a proxy for memcached's ASCII protocol: a [Pool] of servers
// that clients see as one.
//
// A ring gives each key a server, as twemproxy would. All clients share one
// connection to each server. Requests go out as lines that are made of what was
// understood, replies come back as the bytes that a server sent, and retrievals of keys
// of several servers are split and joined.
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
//   - What a client sends can't make the answers of others its own, or end the connection
//     that all share: no byte of its lines reaches a server but in a line that is made
//     anew, which any server takes for that one command. A value whose line was refused
//     is thrown away, where memcached takes it for commands. (TestHostileClients,
//     TestLinesAreMadeAnew, TestRefusals, FuzzRequests, TestDesynchronised)
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
//   - A client is closed by quit, and where memcached closes it: after a line that is too
//     long, and a request of HTTP. Nothing behind that is carried out. (TestQuit,
//     TestHangUp)
//   - What one client may have under way is bounded, in commands and in bytes, and
//     one that doesn't read is disconnected. (TestMaxInFlight, TestMaxClientBytes,
//     TestSlowClient, TestIdleClient)
//   - A value takes memory as it comes, whatever length was announced, and what all
//     clients have of it, and of answers that wait for them, is bounded too.
//     (TestAnnouncedBytes, TestBudgetOfRequests, TestBudgetOfAnswers)
//   - Shutdown answers what was read. (TestShutdown)
package memcached
