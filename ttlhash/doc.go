// Package ttlhash has hashes whose fields expire one by one, on every Redis. Servers that
// can expire fields (Redis 7.4, Valkey 9, the embedded engine) do so; for others this
// package emulates it.
//
// # Use
//
// Make one [Hashes]; each call names the hash and the field:
//
//		sessions, err := ttlhash.New(client, ttlhash.Options{})
//		…
//		err = sessions.Set(ctx, "sessions", "ann", token, 30*time.Minute)
//		…
//		token, ok, err := sessions.Get(ctx, "sessions", "ann")
//
//	  - [Hashes.Touch] reads a field and prolongs it; [Hashes.Take] reads and removes it.
//	  - [Hashes.SetIfAbsent] and [Hashes.SetIfPresent] set all of several fields or none;
//	    [Hashes.Expire] changes a deadline on a condition.
//	  - [Hashes.GetMany], [Hashes.SetMany] and [Hashes.ExpireMany] take many fields at once;
//	    [Hashes.All] iterates over a hash.
//	  - [Hashes.Expired] iterates over fields that expire, with [Options.Events].
//	  - [Hashes.Migrate] hands a hash over to a server that was upgraded.
//
// docs/expiring-hashes.md compares this with periodic sweeps and delay queues.
//
// # Promises
//
// While the server keeps its data:
//
//   - A field is there until its deadline and gone afterwards, by the server's clock, for
//     every call that the server decides: all but Get, GetItem, GetMany and All.
//   - Get, GetItem and GetMany are one round trip without a script. Once a second a script
//     in the same round trip brings the server's time. GetMany reads 4096 fields in a round
//     trip, All about 500.
//   - Get, GetItem, GetMany and All never deny a field before its deadline, and return it
//     late by at most the round trip that last brought the server's time plus a thousandth
//     of the time since.
//   - Of several callers that set an absent field, or take a field, one succeeds.
//   - Each write sweeps at most two chunks of the index. The index has at most 64 chunks
//     more than the hash has fields.
//   - When no process runs any more, all fields are gone after the last deadline; with
//     events a minute later, and the events themselves an hour later.
//   - A field that expires makes at most one event, which all loops get; a field that is
//     removed or replaced before makes none.
//   - A migration may be interrupted and repeated while the hash is in use. It loses and
//     changes nothing.
//   - A call that failed has had its whole effect or none, also when a server that keeps
//     what it acknowledged was killed.
//   - Bad input is refused, and nothing is written.
//   - An atomic write of several fields with more than 1 MiB is refused and changes
//     nothing; SetMany sets them in parts.
//
// A failover loses writes that no replica had. If the server's clock is set, deadlines move
// with it; Get, GetItem, GetMany and All follow a second and a round trip later at most.
// Events may be lost: see [Hashes.Expired]. A hash that had a field without a deadline
// never expires as a whole until it is empty, so its expired fields wait for the next
// write. Len counts expired fields that are not yet swept.
package ttlhash

// How it works.
//
// A hash is up to three keys with one hash tag:
//
//	<prefix>:{<name>}:ttlhash    hash  the fields; each value is a header of 8 bytes and the value that was set
//	<prefix>:{<name>}:ttlindex   zset  chunks of up to 16 fields, by when they are due for a sweep
//	<prefix>:{<name>}:ttlevents  zset  events, by a number that is the time in µs or more
//
// The first 6 bytes of the header are the deadline, in ms since 1970, 0 for none; the
// highest bit says that expiring makes an event. The other 2 identify the chunk of the
// field, 0 for none. So a read is HGET, and the client compares the deadline with a lower
// bound of the server's clock. It knows the bound from each reply that has the time; when
// that is a second old, it asks for the time in the same round trip. Scripts decide by TIME.
//
// A server that expires fields needs no index. For others each write checks two chunks
// that are due and deletes expired fields. A chunk is due up to a 64th of the TTL, or 128
// ms, after a field's deadline, so that many fields share one chunk. With an index entry for
// each field, the hash would take more memory than separate string keys. A field that is set
// again with a later deadline stays in its chunk, and a sweep moves it later; a removed
// field stays too, unless there are more chunks than fields. The keys expire with the last
// deadline, unless a field has none.
//
// Values are the same in both modes. So processes that know of a newer server and
// processes that do not can share a hash, and a migration only hands the fields of the
// index over to the server.
//
// Rejected: a member of a sorted set for each field (94 bytes for each, and a write for
// each Touch); no index, but checking a few random fields with each write, as Redis does (a
// quarter of the hash could be expired); a list for each second (scripts can't name these
// keys ahead).
//
// A million fields of 100 bytes take less memory than as many strings with PX: 191 bytes
// each, against 225, with names of 13 bytes. A server that evicts keys may take the index
// and leave the hash: expired fields then stay, but no call returns them. On servers since
// Redis 7.4 a field that was set without [Options.Events] makes no event.
