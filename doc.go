// Package redoubt has the parts that all of Redoubt's primitives share: the
// client, key names and errors. Each primitive is a package: lock,
// ratelimit, queue, fence, stock, cache, bloom, bitmap, hll, geo, ttlhash,
// scan.
//
// A program opens one [Client] by a URL, or makes one on the Redis client that it already
// has, and passes that to the primitives:
//
//	client, err := redoubt.Open(ctx, "redis://127.0.0.1:6379", redoubt.Options{})
//	…
//	conn, err := goredis.Wrap(redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}))
//	…
//	client, err := redoubt.New(conn, redoubt.Options{})
//	…
//	locks, err := lock.New(client, lock.Options{})
//	…
//	err = locks.Do(ctx, "orders:42", func(ctx context.Context) error {
//		return ship(ctx, 42)
//	})
//
// This package imports no Redis client. It talks to Redis through the narrow
// interface [Conn]; package goredis implements it over go-redis, for one Redis
// or Valkey from 6.2 on, for Sentinel, for Cluster and for a Ring. Packages rueidisconn and valkeyconn, modules of their
// own, do so over rueidis and valkey-go.
//
// # Keys
//
// Every key has the form "<prefix>:{<name>}:<part>". The name in braces is the
// cluster's hash tag, so all keys of one name are in one slot; the part is one
// of a short list that each primitive documents. See [Client.Key].
//
// # Time
//
// The server's TIME, read inside the scripts, is the only clock that decides
// who holds a lock or what a limiter lets through. A client's clock is used
// only to stop early, never to go on longer.
//
// # Errors
//
// Expected outcomes are values: a limiter's refusal, a busy lock. Errors are
// faults, and can be matched with errors.Is and errors.As: [ErrUnknownOutcome]
// when a command may have run although its reply was lost, [ErrUnavailable] when
// the server is down, [ServerError] for what the server refused.
//
// A call to a server that is down fails within [Options].DownAfter, a second by
// default, and at once while it is known to be down.
package redoubt
