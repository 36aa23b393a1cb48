// Package engine is a Redis-compatible data store that lives inside the
// process: no socket, no server to install, and commands on independent keys
// run on all cores. An [Engine] is a redoubt.Conn, so what runs on Redis runs
// on it:
//
//	e, err := engine.Open(ctx, engine.Options{Dir: "/var/lib/shop", Natives: native.All()})
//	client, err := redoubt.New(e, redoubt.Options{})
//
// Without [Options.Dir] the data is gone with the process. [Options.Natives] is
// for speed alone: without it the scripts of the locks and limits run as Lua.
//
// Most programs need Open, [Engine.Do] by way of a redoubt.Client, and
// [Engine.Close]. A [Session] is for servers: it keeps what a client's
// connection keeps, and its replies are the bytes to put on the wire. Package
// server has a listener, with limits and passwords.
//
// Replies are those of Redis 7.0. The commands on the time to live of hash
// fields are those of Redis 8.0. Streams, functions, ACLs, replication and modules
// are left out: their commands answer an error. docs/engine.md lists what is
// missing and what differs.
//
// The keyspace is divided by cluster slot into shards with a lock each. A
// command locks the shards of its keys in ascending order, a transaction the
// union of its commands', so that no command sees half of another. A script locks
// the shards of its KEYS when its text shows that it uses no other keys, and else
// all of them.
//
// # Durability
//
// With a directory every change is appended to a log, which [Open] reads back.
// What survives what is said in package engine/aof, as [Options.Fsync] has it.
// With aof.Always no reply leaves before what it tells, written or only read,
// is on disk; callers that come at the same time, and the commands of a
// pipeline, share an fsync. A transaction and a script are in the log whole or
// not at all. When the disk is full, or fails, writes are answered with a
// MISCONF error and reads go on; when there is room again so do writes, without
// anybody's doing. So they are when the directory was removed, for good. A write that was under way and could not be saved is
// answered with MISCONF too, and so is, under aof.Always, whatever depends on
// it; it may still be saved later. Scripts and settings are not saved: load them
// again.
//
// The log is compacted in the background, by reading it into a second engine. Commands go
// on meanwhile. A compaction takes the memory of a second copy of the data, and of a third
// copy of one key. With [Options.MaxMemory] it works in parts, so the copy takes a quarter
// of that. What is written is read back, and run, before the old log is deleted. A
// directory belongs to one process at a time.
//
// # Promises
//
//   - Replies are Redis': TestDifferential, and Redis' own tests (make
//     redis-suite).
//   - It is a Conn as any other: TestConformance.
//   - A transaction or a script is seen whole or not at all:
//     TestTransfersKeepTheSum, TestScriptsAreAtomicTogether. A script never uses
//     a key whose shard it does not hold: TestRandomScriptsKeepToTheirKeys,
//     TestScriptUndeclaredKeys, TestScriptsHoldWhatTheyNeed.
//   - Those who wait for a key are served in the order in which they came,
//     by whoever makes it ready: TestBlockedAreServedInOrder,
//     TestNobodyOvertakesAMove.
//   - What was confirmed is there after a crash of the process, a power cut or a
//     full disk, as far as the fsync policy says: TestKill, TestPowerCuts,
//     TestFullDisk, TestFailingDisk, TestFailingSync, TestAlwaysHoldsReplies,
//     TestCompactUnderLoad. ENGINE_FAULTS=full repeats the first two 200 and 1,000
//     times for each policy. Damage to what was on disk is an error, see package aof.
//   - No command and no script ends the process or holds it up for ever:
//     TestPanicsAreErrors, TestHostileScripts.
//   - A slow command holds up only what uses the same shards:
//     TestSlowScriptInProcess, TestLargeWorkDoesNotPause.
//   - With [Options.MaxMemory] the count of memory stays at the limit:
//     TestEvictionKeepsToTheLimit.
//
// Not promised: that commands sent on two connections without waiting for a
// reply run in the order of their arrival, and that clocks which jump expire
// keys at the right moment.
package engine
