// Package engine is a Redis-compatible data store that lives inside the
// process: no socket, no server to install, and commands on independent keys
// run on all cores.
//
//	e, err := engine.New(engine.Options{})
//	s := e.Session()
//	reply, wait := s.Do(nil, [][]byte{[]byte("SET"), []byte("k"), []byte("v")})
//
// Replies are the bytes that Redis 7.0 would send, in the protocol of the
// session, so that a server can put them on the wire unchanged. The commands
// on the time to live of hash fields are those of Redis 8.0.
//
// The keyspace is divided by cluster slot into shards with a lock each. A
// command locks the shards of its keys in ascending order, a transaction the
// union of its commands', so that no command sees half of another. A script locks
// the shards of its KEYS when its text shows that it uses no other keys, and else
// all of them.
//
// # Durability
//
// With [Options.Dir] every change is appended to a log, which [Open] reads back:
//
//	e, err := engine.Open(ctx, engine.Options{Dir: "/var/lib/shop", Fsync: aof.Always})
//
// What survives what is said in package engine/aof, as [Options.Fsync] has it.
// With aof.Always no reply leaves before what it tells, written or only read,
// is on disk; callers that come at the same time, and the commands of a
// pipeline, share an fsync. A transaction and a script are in the log whole or
// not at all. When the disk is full, or fails, writes are answered with a
// MISCONF error and reads go on; when there is room again so do writes, without
// anybody's doing. A write that was under way and could not be saved is
// answered with MISCONF too, and so is, under aof.Always, whatever depends on
// it; it may still be saved later. Libraries of FUNCTION LOAD and scripts are
// not saved.
//
// The log is compacted in the background, by reading it into a second engine:
// commands go on meanwhile, and the memory of a second copy is taken for as
// long as that lasts. A directory belongs to one process at a time. TestKill,
// TestPowerCuts, TestFullDisk, TestAlwaysHoldsReplies and TestCompactUnderLoad
// hold this; ENGINE_FAULTS=full repeats the first two 200 and 1,000 times for
// each policy.
//
// Streams, ACLs, replication and modules are left out: their commands answer
// an error.
package engine
