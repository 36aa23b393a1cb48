// Package ttlhash has hashes whose fields expire, each by itself, on any Redis: on
// servers that do so by themselves (Redis 7.4, Valkey 9, the embedded engine) and on
// those that do not.
//
// # Use
//
// Hashes are made once, and each call names the hash and the field:
//
//		sessions, err := ttlhash.New(client, ttlhash.Options{})
//		…
//		err = sessions.Set(ctx, "sessions", "ann", token, 30*time.Minute)
//		…
//		token, ok, err := sessions.Get(ctx, "sessions", "ann")
//
//	  - [Hashes.Touch] reads a field and prolongs it, [Hashes.Take] reads it and deletes it.
//	  - [Hashes.SetIfAbsent] and [Hashes.SetIfPresent] set several fields or none,
//	    [Hashes.Expire] changes deadlines on conditions.
//	  - [Hashes.GetMany] and [Hashes.SetMany] take many fields at once, [Hashes.All] goes
//	    over all of them.
//	  - [Hashes.Expired] tells which fields are over, with [Options.Events].
//	  - [Hashes.Migrate] leaves a hash to a server that has learned to expire fields.
//
// docs/expiring-hashes.md compares this with a periodic sweep and with a delay queue, and
// says how to come from Redisson's RMapCache.
//
// # How it works
//
// A hash is up to three keys, which share a hash tag:
//
//	<prefix>:{<name>}:ttlhash    hash  the fields; each value is a header of 8 bytes and what was set
//	<prefix>:{<name>}:ttlindex   zset  when fields are to be looked at, in chunks of up to 16
//	<prefix>:{<name>}:ttlevents  zset  events, by a number that is the time in µs or more
//
// The header is the deadline, in ms since 1970, 0 for none, in 6 bytes of which the highest
// bit says that its end is an event; and in 2 bytes a mark of the chunk that has the
// field, 0 for none. So a read is HGET, and the reader looks at the deadline: by the
// server's clock, of which he knows a lower bound from each reply that has the time, and
// asks for it, in the same round trip, when that is a second old. All decisions of scripts
// are by TIME.
//
// On a server that expires fields it does so, and there is no index. Elsewhere each
// write looks at two chunks that are due, and deletes what is over. A chunk is due a
// 64th of the TTL after the deadline at the latest, or 128 ms, so that many fields
// share it: an entry of its own for each would make the hash larger than so many
// strings. What is set again with a later deadline stays where it is in the index, and
// is filed anew when it is found there; what is deleted stays till then too, unless
// there are more chunks than fields. The keys expire with the last deadline, unless a field
// has none.
//
// Values are alike in both cases, so processes that know of a newer server and such that
// don't yet can share a hash, and a migration is only a matter of giving fields that are
// in the index to the server.
//
// Rejected: a member of a sorted set for each field (94 bytes of it, and a write for
// each Touch); no index, but a few random fields looked at with each write, as Redis
// does (a quarter of the hash could be over, and nothing would say which); a list for
// each second (keys that no script can name ahead).
//
// # What is promised
//
// While the server keeps its data:
//
//   - A field is there until its deadline, and gone from it on for every call that the
//     server decides (all but Get, GetItem, GetMany, All), by the server's clock.
//     (TestDeadlines, TestScriptsFollowTheModel)
//   - Those four don't deny a field before its deadline either, and don't give it for
//     longer after it than the round trip that last brought the time, plus a thousandth of
//     what has passed since, at most 10 s. (TestDeadlines, TestClock,
//     TestReadsGoByTheServersClock)
//   - They are one round trip without a script. (TestRoundTrips)
//   - Of those who set an absent field, or take one, one does. (TestOneWins)
//   - Each write sweeps, two chunks and no more. (TestWritesSweep)
//   - When every process is dead nothing is left after the last deadline; of fields whose
//     end is an event after a minute more, of events after an hour. (TestNothingIsLeft)
//   - The index is in proportion to the fields: as many chunks and 64.
//     (TestIndexIsInProportion, TestIndexHasWhatTheHashHas)
//   - A million fields of 100 bytes take less than so many strings with PX: 191 bytes
//     each, against 225, with names of 13 bytes. (TestBytes)
//   - A field that is over is one event at most, for all who listen; one that is deleted or
//     replaced before is none. (TestEvents, TestEventsAreMadeOnce, TestEventsFromNowOn,
//     TestScriptsFollowTheModel)
//   - A migration may die and be repeated while the hash is in use; nothing is lost,
//     changed or without its deadline. (TestMigrate, TestMigrateLooksAgain, TestMixed)
//   - All of that is so as well when the server, which keeps what it acknowledges, is
//     killed and started again. A call that failed has had its effect, or none.
//     (TestKilledServer)
//   - An atomic write of several fields that have more than 1 MiB together is refused, and
//     changes nothing; SetMany goes in parts instead. (TestLargeFields)
//   - Bad input is refused, and nothing is written. (TestBadInput)
//
// # What is not promised
//
// When a primary fails, writes that no replica had are lost, as always with Redis. When
// the server's clock is set, deadlines come sooner or later, and Get and its kin learn of
// it within a second, or two. An event may be lost: see [Hashes.Expired]. A hash that had a field
// without a deadline does not expire as a whole until it was empty: there, what is over
// waits for the next write. A server that evicts keys may take the index and leave the
// hash: then what is over stays, and is not given. Len counts what is over and not swept.
// On a server of Redis 7.4 and later fields that the server expires are events for nobody
// but [Hashes.Expired] of those with [Options.Events].
package ttlhash
