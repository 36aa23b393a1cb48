// Package fence makes a resource refuse writes from holders that have lost their
// lock.
//
// Each lease of package lock has a fencing token that rises from lease to lease:
// lock.Lease.Token. A [Guard] runs commands on Redis only with a token that is at
// least the largest one seen for the resource:
//
//	guard, err := fence.New(client, fence.Options{})
//	…
//	lease, err := locks.Acquire(ctx, "ledger")
//	…
//	err = guard.Do(ctx, "ledger", lease.Token(), redoubt.Cmd{
//		Name: "SET", Keys: []string{"ledger"}, Args: []string{balance},
//	}).Err
//	if errors.Is(err, fence.ErrStale) {
//		// a later holder has written: nothing was written
//	}
//
// An [SQL] guards the transactions of a database in the same way, whatever server
// has the lock:
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
// A holder may use its token any number of times. [Guard.Accept] at the beginning
// of its work shuts out all earlier holders from then on. From other languages use
// the command FENCE.DO.
//
// # Why
//
// A lock can't stop a holder that was paused. It wakes up, doesn't know that its
// lease has ended, and writes while another client holds the lock. Only the
// resource can notice that, by the token.
//
// # What is promised
//
//   - The tokens of accepted writes never fall, among all processes and whatever
//     the network loses.
//   - A refused write has written nothing, and its error, which matches
//     [ErrStale], has the largest token seen.
//   - Commands are sent again after a lost reply only if their flags allow it.
//
// docs/promises.md names the tests that check each promise.
//
// # What is not promised
//
// Writes that bypass the guard are not checked. The largest token may be lost: by
// eviction, by a failover of the Redis that keeps it, or when [Options].Keep ends.
// The next token is then accepted, whatever it is. A guard on the lock's own Redis
// is only as durable as that Redis: prefer a database that keeps its own tokens.
//
// A resource knows only the tokens that it has seen. Between the acquire of a new
// holder and its first write, the earlier holder can still write.
//
// # How it works
//
// On Redis the largest token is a decimal number in the key
// "<prefix>:{<resource>}:fence". One script compares the token, remembers it and
// runs the commands: one round trip, one atomic step. On a database it is a row of
// a table. One upsert compares and remembers, and locks the row until the
// transaction ends, so concurrent transactions on one resource run one after the
// other.
//
// # Sources
//
// M. Kleppmann, "How to do distributed locking" (2016); the sequencer of
// M. Burrows, "The Chubby lock service for loosely-coupled distributed systems"
// (OSDI 2006).
package fence
