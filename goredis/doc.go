// Package goredis makes a [redoubt.Conn] of a go-redis client.
//
// [Wrap] takes the client that a program already has: a *redis.Client, standalone or from Sentinel, or a
// *redis.ClusterClient or a *redis.Ring. [Open] makes a client from a URL, with options that suit coordination. Once this
// package is imported, redoubt.Open takes the same URLs.
//
// # Retries
//
// go-redis sends a command again after a network error unless it is told not to, so it may run a command
// twice. This package sets NoRetry on every command and decides by itself:
//
//   - A command that the server did not run is sent again until the context ends, with growing, jittered
//     pauses: after LOADING, READONLY, TRYAGAIN, MASTERDOWN and CLUSTERDOWN, and when no connection could
//     be opened. READONLY opens a new connection, so a failover behind one address is survived. When
//     the context has no deadline, this ends after ten seconds. A [redoubt.Client] ends it once the server
//     was silent for DownAfter: see [redoubt.Options].
//   - A command whose reply was lost is sent again, at most three times, when it is flagged ReadOnly or
//     Idempotent. Otherwise its error matches [redoubt.ErrUnknownOutcome].
//   - Behind `redoubt serve` the same holds for its back end. serve has error replies for a lost
//     reply and for a command that was not sent, and this package handles them like a broken connection.
//     When serve knows that a server is down, the call fails at once with an error that matches
//     [redoubt.ErrUnavailable].
//   - A script that the server doesn't know is loaded there and sent again.
//
// # Contexts
//
// While go-redis waits for a reply it ignores a cancelled context, and it respects a deadline only when
// ContextTimeoutEnabled is set. So if a call's context can end, this package runs the call on a
// separate goroutine. When the context ends, the caller leaves that goroutine behind; it ends with the
// client's time-out and uses a private copy of the command.
//
// The goroutine costs as much as the call. A client from [Open] on one server avoids it for up to four
// calls at a time. Each of them uses its own connection outside the pool, and the package closes that
// connection when the context ends. Hooks of [Client.Redis] don't see these calls. Hooks of a client
// given to [Wrap] see every call.
//
// # Merged reads
//
// Adjacent MGET commands of a pipeline that are flagged ReadOnly are sent as one MGET of up to 128 keys, to a
// single server that accepts it. A [redoubt.Client] makes pipelines of concurrent calls, so one command answers
// many callers. Hooks see the merged command. When the server refuses the merged command, each of the
// original commands is sent by itself, behind the rest of the pipeline.
//
// # Clusters
//
// A command goes to the primary that owns its first key, and follows MOVED and ASK. A command without
// keys goes to any primary; use [Conn.Primaries] to reach all of them. Hooks added to the nodes
// (ClusterClient.OnNewNode) see every command. Hooks added to the ClusterClient itself see only the
// redirected commands.
//
// # Rings
//
// A Ring moves the keys of a shard that is down to other shards. No lock would be held there, so this package
// doesn't follow: each key keeps the shard that the Ring's hash chooses when all shards are up. While a shard
// is down, calls for its keys fail as for a single server, and others go on. [Wrap] refuses a Ring that has found a
// shard to be down, because the Ring gives no access to it then: wrap a Ring when it is made. A command whose keys are on
// several shards gets an error with the code CROSSSLOT and is not sent.
//
// Do not call SetAddrs. A set of other shards moves names: let no process use Redoubt while you change it. Hooks
// added to the shards (Ring.OnNewNode) see every command, hooks added to the Ring see none.
package goredis
