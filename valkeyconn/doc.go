// Package valkeyconn makes a [redoubt.Conn] of a valkey-go client (github.com/valkey-io/valkey-go): for one server, a
// Sentinel group or a cluster. It is a module of its own, and a program that uses it builds no go-redis.
//
//	rdb, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
//	…
//	conn, err := valkeyconn.Wrap(rdb)
//	…
//	client, err := redoubt.New(conn, redoubt.Options{})
//	…
//	locks, err := lock.New(client, lock.Options{})
//
// Behind a pool of `redoubt serve` set DisableCache: a pool can't tell a client which keys change.
//
// # Retries
//
// valkey-go sends a command again by itself when its builder marks it read-only, unless DisableRetry is set.
// This package sets no such mark, so any client will do, and decides by itself:
//
//   - A command that the server did not run is sent again until the context ends, with growing, jittered
//     pauses: after LOADING, READONLY, TRYAGAIN, MASTERDOWN and CLUSTERDOWN, and when no connection could
//     be opened. When the context has no deadline, this ends after ten seconds. A [redoubt.Client] ends it once
//     the server was silent for DownAfter: see [redoubt.Options].
//   - A command whose reply was lost is sent again, at most three times, when it is flagged ReadOnly or
//     Idempotent. Otherwise its error matches [redoubt.ErrUnknownOutcome].
//   - Error replies of `redoubt serve` for a lost reply, for a command that was not sent and for a server that is
//     down are handled like the fault that they tell of.
//   - A script that the server doesn't know is loaded there and sent again.
//
// READONLY opens no new connection: when another server takes over an address, valkey-go must notice that the
// old connection is dead. Sentinel closes such connections. Leave ConnLifetime at 0: when the life of a connection
// ends, valkey-go itself sends the commands on it again, and some may have run.
//
// # Contexts
//
// Calls share connections. If the caller that opens one leaves, the others try again, as after any connection that
// could not be opened. If a call's context can end, this package runs the
// call on a separate goroutine. When the context ends, the caller leaves that goroutine behind. A command that
// was not sent by then never is. A blocking command counts as sent, and its connection is closed.
//
// valkey-go asks a call's context whether it has ended before it sends the command; that is how the package
// knows what was sent. With a wrapped client that hides the context from valkey-go, each failed command
// counts as sent.
//
// # Clusters
//
// A command goes to the primary that owns its first key, and follows MOVED and ASK. A command without
// keys goes to any primary; use [Conn.Primaries] to reach all of them.
package valkeyconn
