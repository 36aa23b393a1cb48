// Package cache keeps the values of a source, mostly a database, on Redis and, if wanted, in the
// process too. It protects the source: from keys that it does not have, from many callers that miss a
// key at once, and from many keys that expire together.
//
// # Use
//
// Make one cache for each kind of value:
//
//	users, err := cache.New(client, cache.Options[int64, User]{Name: "users", TTL: time.Hour})
//	…
//	u, found, err := users.Get(ctx, 42, loadUser)
//
// loadUser asks the source:
//
//	func loadUser(ctx context.Context, id int64) (u User, found bool, err error)
//
// After a write to the source is committed, invalidate the key:
//
//	err = users.Invalidate(ctx, 42)
//
// And there is more:
//
//   - [Cache.GetMany] loads all missing keys by one call.
//   - [Options].StaleFor serves an old value while one caller loads a new one (also called logical
//     expiry). StaleIfError serves it while the source fails.
//   - [Options].Local keeps entries in the process too.
//   - [Options].Tags and [Cache.InvalidateTag] invalidate groups of entries.
//   - [Options].Filter asks a Bloom filter before the source.
//   - [Admin] reads, lists and invalidates entries without knowing their types.
//
// # What is promised
//
// While the server keeps its data:
//
//   - Of all callers in all processes, only one loads a missing key.
//   - After Invalidate or Set has returned nil, a Get that begins later returns no older value, except
//     from the local level of another process.
//   - While a process is connected, its local level lags by at most 100 ms after an Invalidate or Set;
//     while it is not, it serves no value older than LocalTTL plus StaleIfError.
//   - A process that dies while it loads keeps others waiting for at most Options.Lease, and a slow
//     process keeps its lease.
//   - Waiters are woken.
//   - The cache remembers that the source does not have a key, separately from all values.
//   - Entries that are stored together do not expire together.
//   - A tag invalidates all entries that have it, also entries that are being loaded.
//
// Always:
//
//   - The error or panic of a loader reaches the callers that wait for it in its process, and the next Get
//     loads again.
//   - A caller whose ctx ends returns alone, and the load continues.
//   - At most MaxLoads loads run in a process, and a source that fails gets no calls for a while.
//   - Get does not fail because the server is down: it asks the source.
//   - A stale value is served no longer than the options allow.
//   - A command that takes a lease or sets a value is never sent twice.
//   - A hit of the local level does not allocate.
//
// # What is not promised
//
// A process that can't reach the server loads by itself and gets no invalidations; callers that come
// during the load get its value too. Invalidate then returns an error and has to be repeated. When a
// primary fails, an invalidation that no replica had is lost, as always with Redis; the TTL bounds how
// long the old value stays. A source whose replicas lag may give the loader an old value: read from its
// primary, or invalidate again later. Of two Sets at once either may win. All callers share the values
// of the local level and must not change what they point to. A local level learns of Invalidate,
// InvalidateTag and Set, but not of a manual DEL. Tags tolerate clocks of a cluster's nodes that differ
// by up to a second. If a clock is set back, a load in progress may miss that its tag was invalidated.
//
// # How it works
//
// An entry is one string. One MGET reads it; on a single server package goredis merges the MGETs of
// several callers:
//
//	<prefix>:{<cache>:<key>}:cache   string
//
//	byte      meaning
//	0         the version of this layout, 1
//	1         v: a value; n: the source does not have the key; -: only a lease
//	2         the encoding of the payload: . plain, z deflate
//	3..10     when it stops being fresh, in µs of the server's clock; all numbers are big-endian
//	11..18    how long the load took, in µs
//	19..26    when the lease ends; 0: there is no lease
//	27..34    the id of the value
//	35..42    the owner of the lease
//	43..46    the length of the payload, which follows
//	          after it, the waiters: length, command, channel, cache
//
// A caller that finds no value takes a lease by a script, and loads (Nishtala et al., Scaling Memcache
// at Facebook, 2013). The value is stored only if the lease still exists. An invalidation deletes the
// key and with it the lease; so does any DEL. Other processes write into the key how to wake them. The
// process renews its lease while the load lasts, so a lease can be short. The command that takes a
// lease is never sent twice.
//
// Within a process, one lookup serves all concurrent callers of a key. A caller that joins it gets the
// value only if the value is no older than the call: see lookup.go.
//
// One caller loads a value again in the background before it expires. The probability of that rises as
// the expiry comes near: now + δ·β·(-ln rand) ≥ expiry, where δ is how long the load took (Vattani,
// Chierichetti, Lowenstein: Optimal Probabilistic Cache Stampede Prevention, 2015).
//
// The local level gets invalidations by pub/sub, on one channel for each cache, and drops everything
// after a lost connection. The script that deletes a key also publishes it, so one never happens without
// the other. Rejected for now: RESP3 tracking, which would also report keys that somebody else deletes
// and evicted keys. Tracking is tied to the connections that read: go-redis does not expose them, and
// an embedded engine has none. The server would also have to remember which connection read which key.
//
// Tags are sorted sets of keys, by expiry:
//
//	<prefix>:{<cache>:<tag>}:tag      zset    keys of entries
//	<prefix>:{<cache>:<tag>}:tagged   string  when the tag was last invalidated; kept for an hour
//
// The server's TIME decides how long a lease lasts and how long a value is fresh. A process decides by
// its own estimate of that clock whether it serves a stale value. It learns the clock from the scripts;
// the estimate is wrong by at most a round trip.
package cache
