// Package transfer moves keys between servers, engines in this process and RDB files.
//
//	from, err := transfer.OpenFile("dump.rdb")
//	to, err := transfer.NewServer(ctx, backend, transfer.AnyDatabase)
//	result, err := transfer.Move(ctx, from, to, transfer.Options{})
//
// [Move] reads the source twice. The first time it writes nothing: it reads a file to its end and compares
// the checksum, counts values that the target can't store, and finds keys that exist in the target. Then it
// writes the keys. A problem that only shows while writing, like a key that another client has just written,
// ends the move, and [Result] says how many keys were written.
//
// Values travel as DUMP payloads, so that types unknown to this package arrive unchanged if both sides know
// them. Expiry times travel as points in time. Idle times and access frequencies are not copied.
//
// A move from a server that clients write to is not a snapshot: each key has its value at some moment, and
// keys that were created or deleted during the move may or may not be copied. An RDB file is a snapshot.
package transfer
