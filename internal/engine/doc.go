// Package engine is the embedded engine: a Redis-compatible data store inside the process. Programs use
// it through the public packages engine and server. An [Engine] is a redoubt.Conn and a back end of
// internal/server:
//
//	e, err := engine.Open(ctx, engine.Options{Dir: "/var/lib/shop", Natives: native.All()})
//	client, err := redoubt.New(e, redoubt.Options{})
//
// Without [Options.Natives] the scripts of locks and limits run as Lua, which is slower.
//
// A [Session] keeps what a client's connection keeps, and appends replies as the bytes to put on the
// wire. internal/server has the listener, with limits and passwords.
//
// # Shards
//
// The keyspace is divided by cluster slot into shards with a lock each. A command locks the shards of
// its keys in ascending order, a transaction the shards of all its commands, so no command sees half of
// another one. A script locks the shards of its KEYS when its text shows that it uses no other keys, and
// all shards otherwise. A slow command holds up only commands on the same shards.
//
// Clients that block on a key are served in the order of their arrival, whichever command makes the key
// ready. A command that panics is answered with an error, and every script can be stopped.
//
// # Durability
//
// With a directory the engine appends every change to a log, and [Open] reads the log back. Package aof
// says which changes survive, for each [Options.Fsync]. With aof.Always a reply leaves only once every
// change that it reports, its own or one that it read, is on disk. Concurrent callers and the commands
// of a pipeline share an fsync. A transaction and a script are in the log whole or not at all.
//
// When the disk is full or fails, or the directory was removed, the engine answers writes with a MISCONF
// error, and reads go on. When a full disk has room again, writes go on by themselves. A write that was
// under way and could not be saved is answered with MISCONF too; under aof.Always so is every reply that
// depends on it. It may still be saved later. Scripts and settings are not saved.
//
// The engine compacts the log in the background, by reading it into a second engine. Commands go on
// meanwhile. A compaction takes the memory of a second copy of the data, and of a third copy of one key.
// With [Options.MaxMemory] it works in parts, and the copy takes a quarter of that. The engine reads the
// new file back, and runs it, before it deletes the old log. A directory belongs to one process at a time.
//
// # Not promised
//
// Commands that two connections send without waiting for a reply may run in either order. A clock that
// jumps may expire keys early or late.
package engine
