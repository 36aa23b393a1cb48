// Package goredis makes a [redoubt.Conn] of a go-redis client.
//
// [Wrap] takes the client that a program already has: a *redis.Client,
// standalone or from Sentinel, or a *redis.ClusterClient. [Open] makes one from
// a URL, with options that suit coordination. An import of this package has redoubt.Open
// take the same URLs.
//
// # What it adds to go-redis
//
// go-redis sends a command again after a network error unless it is told not
// to, and so may run it twice. Every command sent from here carries
// NoRetry, and this package decides by itself:
//
//   - What the server did not run is sent again until the context ends, with
//     growing, jittered pauses: after LOADING, READONLY, TRYAGAIN, MASTERDOWN
//     and CLUSTERDOWN, and when no connection could be had. READONLY gets a new
//     connection, so that a failover behind one address is survived. Where the
//     context has no deadline this ends after ten seconds; a [redoubt.Client] ends it
//     once the server was silent for DownAfter: see [redoubt.Options].
//     (TestServerDown, TestClusterNodeDown)
//   - A command whose reply was lost is sent again, at most three times, when
//     it is flagged ReadOnly or Idempotent; else its error matches
//     [redoubt.ErrUnknownOutcome].
//   - Behind `redoubt serve` the same holds for the server behind it: the error replies
//     by which serve tells that a reply is lost, or that a command was not sent, count as
//     a broken connection. A server that serve knows to be down is an error at once that
//     matches [redoubt.ErrUnavailable]. (TestServeTells)
//   - A script the server doesn't know is loaded there and sent again.
//
// go-redis does not look at a context's cancellation while it waits for a
// reply, and at its deadline only when ContextTimeoutEnabled is set. Here a call
// whose context can end runs on a goroutine that the caller leaves behind when
// it does; that goroutine ends with the client's own time-out. What it may still
// send is a private copy.
//
// The goroutine costs as much as the call. A client of [Open] on one server saves
// it: up to four calls at a time run each alone on a connection outside the pool,
// which is closed when the context ends. Hooks of [Client.Redis] don't see them;
// those of a client given to [Wrap] see every call.
// (TestCallsAloneOnTheirConnections, TestHooksOfAWrappedClientSeeEveryCall)
//
// Commands MGET flagged ReadOnly that follow each other in a pipeline are sent as one, of
// up to 128 keys, to a single server that takes it. A [redoubt.Client], which makes
// pipelines of concurrent calls, so has many callers answered by one command, which is
// what hooks see. What the server refuses to all, though maybe not to each, is sent again
// for each, behind the rest of the pipeline.
// (TestMerge, TestMergeIsRefused, TestMergeWithOneRefused, TestClusterMergesNothing)
//
// # Clusters
//
// A command goes to the primary that owns its first key, and follows MOVED and
// ASK. A command without keys goes to any primary; use [Conn.Primaries] to reach
// them all. Hooks added to the nodes (ClusterClient.OnNewNode) see the commands;
// those added to the ClusterClient itself see redirected ones only.
//
// A *redis.Ring is refused: see [ErrUnsupportedClient].
package goredis
