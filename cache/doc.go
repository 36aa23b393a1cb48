// Package cache keeps what was read from a source, a database mostly, on Redis and, if
// wanted, in the process, and protects the source: from keys that it doesn't have, from
// all callers at once when a key is not there, and from many keys that expire together.
//
// # Use
//
// A cache is made once, for one kind of value:
//
//	users, err := cache.New(client, cache.Options[int64, User]{Name: "users", TTL: time.Hour})
//	…
//	u, found, err := users.Get(ctx, 42, loadUser)
//
// where loadUser asks the source:
//
//	func loadUser(ctx context.Context, id int64) (u User, found bool, err error)
//
// Whoever writes to the source calls Invalidate when that is committed:
//
//	err = users.Invalidate(ctx, 42)
//
// And there is more:
//
//   - [Cache.GetMany] loads what is not there of many keys by one call.
//   - [Options].StaleFor serves an entry for longer while it is loaded anew, and
//     StaleIfError while the source fails. A long StaleFor is what is called logical
//     expiry.
//   - [Options].Local keeps entries in the process too.
//   - [Options].Tags and [Cache.InvalidateTag] invalidate what belongs together.
//   - [Options].Filter asks a Bloom filter before the source.
//
// # How it works
//
// An entry is one string, so that to read it is one MGET, which on a single server
// package goredis merges with those of other callers:
//
//	<prefix>:{<cache>:<key>}:cache   string
//
//	byte      what it is
//	0         the version of this layout, 1
//	1         v: a value; n: the source has none; -: nothing, only a lease
//	2         how the payload is encoded: . as it is, z by deflate
//	3..10     until when it is fresh, in µs of the server's clock; all numbers big-endian
//	11..18    how long the load took, in µs
//	19..26    until when the lease below lasts, 0: there is none
//	27..34    names the value
//	35..42    names who has the lease
//	43..46    the length of the payload, which follows
//	          behind it, who waits for the load: length, command, channel, cache
//
// Who finds no value takes a lease, by a script, and loads (Nishtala et al., Scaling
// Memcache at Facebook, 2013). The value is stored only if the lease is still there. An
// invalidation deletes the key and with it the lease; a DEL by anybody does the same.
// The others note in the key how they are woken. A lease is renewed while the load
// lasts, so it can be short. The command that takes it is never sent twice
// (TestWhatIsSentOnce).
//
// In a process one flight searches for a key, for all who want it. Who comes in the
// middle has its answer only if that is no older than his call: see flight.go.
//
// An entry is loaded anew before it expires, by one caller in the background, with a
// probability that rises as the time comes near: now + δ·β·(-ln rand) ≥ expiry, where δ is
// how long the load took (Vattani, Chierichetti, Lowenstein: Optimal Probabilistic Cache
// Stampede Prevention, 2015).
//
// The local level hears of invalidations by pub/sub, on one channel a cache, and is
// flushed when a connection was lost and is made anew. The script that deletes a key
// publishes it, so one can't happen without the other. Rejected for now: RESP3 tracking,
// which would also tell of a key that somebody else deletes or that is evicted. It is
// bound to the connections that read, which the client underneath doesn't hand out and an
// engine in the process doesn't have, and the server has to remember who read which key.
//
// Tags are sorted sets of keys, by when those are gone:
//
//	<prefix>:{<cache>:<tag>}:tag      zset    keys of entries
//	<prefix>:{<cache>:<tag>}:tagged   string  when the tag was last invalidated; for an hour
//
// The server's TIME decides how long a lease lasts and until when a value is fresh. When a
// value is served as stale each process decides by its estimate of that clock, which it
// learns from the scripts and which is wrong by a round trip.
//
// # What is promised
//
// While the server keeps its data:
//
//   - Of all callers in all processes one loads a key. (TestColdKey, TestGetManyIsOneLoad)
//   - After Invalidate or Set has returned nil, no Get that begins then returns what was
//     before: in the process that invalidated, and in all others without a local level.
//     (TestInvalidateAgainstSlowLoads)
//   - In other processes with a local level none is older than 100 ms while they are
//     connected, nor than LocalTTL when they are not, and StaleIfError if that is set.
//     (TestLocalLevelBeginsEmpty, TestLocalLevelsHear, TestOtherLocalLevelsAgainstWrites, TestLocalLevelCutOff,
//     TestServerRestart, TestLocalLevelsAgainstRestarts)
//   - A process that dies while it loads keeps others waiting for Options.Lease at most; one
//     that is slow keeps its lease. (TestDeadLoader, TestSlowLoader)
//   - Those who wait are woken. (TestWaitersAreWoken)
//   - That the source has none is remembered, apart from all values. (TestNegativeEntries)
//   - Entries that are stored together don't expire together. (TestJitter)
//   - What has a tag is invalidated with it, also when it was being loaded. (TestTags,
//     TestTagAgainstSlowLoad, TestTagWhileItIsSet, TestTagOnAnotherClock)
//
// And always:
//
//   - An error or a panic of a loader reaches those who wait for it in its process, and the
//     next Get loads again. (TestLoaderFails)
//   - A caller whose ctx ends leaves alone: the load goes on. (TestFirstCallerLeaves)
//   - No more than MaxLoads run in a process, and a source that fails is left alone for a
//     while. (TestMaxLoads, TestBreaker)
//   - A server that is down is no error of Get. (TestServerDown, TestServerRestart)
//   - What is stale is served for the time that was chosen and no longer. (TestStaleFor,
//     TestStaleIfError)
//   - A hit of the local level makes no allocation. (TestLocalHitAllocatesNothing)
//
// # What is not promised
//
// A process that can't reach the server loads by itself, and hears of no invalidation:
// callers who come while it loads have the answer too. Whoever invalidates then gets an
// error, and has to do it again. When a primary fails, an invalidation that no replica had
// is lost, as always with Redis; the TTL bounds that. A source with replicas that lag
// gives the loader what was before the write: read from its primary, or invalidate once
// more later. Of two Sets at once either may win. Values of the local level are shared by
// all callers, who must not change what they point to. A local level hears of Invalidate,
// InvalidateTag and Set, and not of a DEL by hand. The clocks of a cluster's nodes may be up
// to a second apart: tags allow for it. One that is set back may hide from a load under way
// that its tag was invalidated.
package cache
