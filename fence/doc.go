// Package fence makes a resource refuse those who have lost their lock.
//
// # Why
//
// A lock can't stop a holder that was paused: it wakes up, doesn't know that its
// lease is over, and writes, while another holds the lock. Only what is written to
// can tell, if it is given the fencing token of the lease, lock.Lease.Token, which
// rises with each acquisition: it refuses a token smaller than the largest that it
// has seen. Package fence does that for Redis and for SQL databases.
//
// # Use
//
// A [Guard] lets commands through to Redis:
//
//	guard, err := fence.New(client, fence.Options{})
//	…
//	lease, err := locks.Acquire(ctx, "ledger")
//	…
//	_, err = guard.Do(ctx, "ledger", lease.Token(), redoubt.Cmd{
//		Name: "SET", Keys: []string{"ledger"}, Args: []string{balance},
//	})
//	if errors.Is(err, fence.ErrStale) {
//		// another has had the lock since: nothing was written
//	}
//
// A script of the program's own is guarded in the same way: Do takes one Cmd with
// a Script instead.
//
// An [SQL] lets a transaction on a database go on, whatever the lock is on:
//
//	guard, err := fence.NewSQL(fence.SQLOptions{Dialect: fence.PostgreSQL})
//	…
//	_, err = db.ExecContext(ctx, guard.Schema()) // once
//	…
//	err = guard.Do(ctx, db, "ledger", lease.Token(), func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, `UPDATE ledger SET …`)
//		return err
//	})
//
// A holder may use its token as often as it likes. Using it once, for nothing,
// before the work begins shuts out all earlier holders from then on: [Guard.Do]
// without commands.
//
// # How it works
//
// On Redis the largest token is the key "<prefix>:{<resource>}:fence", a decimal
// number. One script compares, remembers and runs the commands: one round trip,
// one atomic step. On a database it is a row of a table, and one upsert compares
// and remembers. It holds the row until the transaction ends, so that another
// token is compared with what that leaves behind.
//
// # What is promised
//
//   - The tokens of the writes that get through never fall, among all processes
//     and whatever is lost on the way. (TestHistory, TestConcurrentWriters; for SQL
//     tests/fence_test.go, on SQLite and PostgreSQL)
//   - What is refused has written nothing, and its error, which matches
//     [ErrStale], carries the largest token seen. (TestDo, TestScript)
//   - Commands are sent again after a lost reply only if their flags allow it.
//     (TestLostReplies)
//
// # What is not promised
//
// Anything about writes that go past the guard. The largest token after it was
// evicted, lost in a failover of the Redis that keeps it, or forgotten because
// [Options.Keep] is over: the next token is accepted, whatever it is. A guard on
// the same Redis as the lock is as lasting as that Redis; a database that keeps
// its own is better.
//
// That a token which is larger belongs to the holder: a resource sees only what
// it is shown. Between a new holder's acquire and its first write the one before
// can still write.
//
// # Sources
//
// M. Kleppmann, "How to do distributed locking" (2016); the sequencer of
// M. Burrows, "The Chubby lock service for loosely-coupled distributed systems"
// (OSDI 2006).
package fence
