// Package memcached is a proxy for memcached's ASCII protocol: a [Pool] of servers that clients see as
// one.
//
//	p, err := memcached.New(memcached.Options{Servers: servers})
//	…
//	err = p.Serve(listener)
//
// A ring gives each key a server, as in twemproxy. All clients share one connection to each server.
// The pool parses each request and writes its line anew. Replies pass through byte for byte. A
// retrieval of keys of several servers is split, and the replies are joined.
//
// The commands are get, gets, gat, gats, set, add, replace, append, prepend, cas, delete, incr, decr,
// touch, flush_all, verbosity, version, stats and quit. A command without a key goes to all servers:
// flush_all and verbosity succeed if they succeed on each, version is that of one server, and stats
// are sums. "stats proxy" is about the pool. Meta commands, and commands about the inside of one server,
// get ERROR. The binary protocol gets an error of its own.
//
// # Promises
//
//   - A pool answers as a server does, except for the order of values from several servers and for
//     the numbers of cas, which are each server's own.
//   - Answers come in the order of the commands.
//   - No client can read the answers of others or end the shared connection. No line of a client
//     reaches a server: the pool writes each line anew, in a form that every server takes for this one
//     command. If it refuses a line, it discards the value that follows; memcached would read that
//     value as commands.
//   - When a server is down, only its keys get an error. The error names the server and says whether
//     the command may have run. No value ever reaches another key or client.
//   - A client that waits, for its own answers or for room at a server, holds up no other client.
//   - When a server hangs, its keys get an error within Timeout, and later commands one at once; the
//     pool drops late replies.
//   - Without FailureLimit the ring never changes.
//   - With FailureLimit a server returns to the ring when RetryTimeout has passed and the server has
//     answered.
//   - [Pool.Change] replaces the servers under connected clients, and no command overtakes another of
//     its client meanwhile.
//   - A retrieval gets a whole answer or one error.
//   - The pool closes a client on quit, and where memcached closes it: after a line that is too long,
//     or a request of HTTP. It runs nothing behind that.
//   - A client's commands and bytes in flight are bounded. A client that doesn't read is disconnected.
//   - A value takes memory only as it arrives, whatever length its line announces.
//   - One budget bounds the memory of all clients, answers that wait included.
//   - Shutdown answers every command that was read.
package memcached
