// Package engine is a Redis-compatible data store inside the process: no socket and no server to
// install. Commands on independent keys run on all cores. An [Engine] is a redoubt.Conn, so every
// package that works on Redis works on it:
//
//	e, err := engine.Open(ctx, engine.Options{Dir: "/var/lib/shop"})
//	if err != nil {
//		return err
//	}
//	defer e.Close()
//	client, err := redoubt.New(e, redoubt.Options{})
//	locks, err := lock.New(client, lock.Options{})
//
// Without [Options.Dir] the data is lost when the process ends. A program that opens its server by URL
// needs only `import _` of this package: redoubt.Open then accepts "embedded:" (memory only) and
// "embedded:/path" (saved in that directory).
//
// Package server lets other processes use an Engine, from any Redis client. Package enginetest has an
// engine for unit tests, whose clock the test sets.
//
// # Commands
//
// Replies equal the replies of Redis 7.0. The commands for the time to live of hash fields come from Redis
// 8.0. ACLs, replication and modules are missing: their commands answer an error.
// docs/engine.md lists what is missing and what differs.
//
// A command locks the keys that it uses, a transaction the keys of all its commands. No command sees
// half of another one. A script locks the keys in KEYS when its text shows that it uses no others, and
// the whole engine otherwise.
//
// # Durability
//
// With a directory the engine appends every change to a log, and [Open] reads the log back.
// [Options.Fsync] says which changes survive a power cut. A transaction and a script are in the log
// whole or not at all. When the disk is full or fails, the engine refuses writes with a MISCONF error,
// and reads go on. Writes go on by themselves once the disk has room again. Scripts and settings are
// not saved: load them again after a start.
//
// The engine compacts the log in the background, while commands go on. A compaction takes the memory of
// a second copy of the data, or a quarter of [Options.MaxMemory] if that is set. A directory belongs to
// one process at a time. When it is damaged, Open fails and changes nothing; `redoubt check` says what
// can be saved, and saves it.
package engine
