// Package transfer moves keys between servers, engines in this process and RDB
// files.
//
//	from := transfer.File("dump.rdb")
//	to, err := transfer.NewServer(ctx, backend, transfer.AnyDatabase)
//	result, err := transfer.Move(ctx, from, to, transfer.Options{})
//
// [Move] goes over the source twice. The first time nothing is written: a file
// is read to its end and its checksum compared, values that the target has no
// place for are counted, and keys that the target has already are found. Only
// then are keys written. What can only be found out later, like a key that
// somebody else writes to the target meanwhile, ends the move, and [Result] says
// how many keys were written.
//
// Values travel as DUMP gives them, so that a type which this module knows
// nothing of arrives whole where both sides know it. Deadlines travel as points
// in time. Access times and frequencies stay behind.
//
// From a server that is written to meanwhile comes no snapshot: each key is as it
// was at some moment, and keys that were made or deleted during the move may or
// may not be there. An RDB file is a snapshot.
package transfer
