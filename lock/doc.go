// Package lock gives distributed locks on Redis.
//
// Make one [Mutex] and use it for every name. Do runs a function while the lock is
// held. It renews the lease while the function runs, and ends the function's
// context when the lease is lost:
//
//	locks, err := lock.New(client, lock.Options{TTL: 10 * time.Second})
//	…
//	err = locks.Do(ctx, "orders:42", func(ctx context.Context) error {
//		return ship(ctx, 42)
//	})
//
// Acquire and TryAcquire return a [Lease], which the caller releases. A busy lock is
// a result and not an error: [Busy] has the holder's label and remaining time.
//
//	lease, busy, err := locks.TryAcquire(ctx, "orders:42")
//
// Other kinds of lock, each with a constructor and options of its own:
//
//   - [Semaphore] has several permits for a name.
//   - [RWMutex] is held by one writer or by any number of readers.
//   - [Multi] acquires the locks of several names, all or none.
//   - [Quorum] holds a lock on a majority of independent masters, and survives the
//     loss of the others.
//   - [Latch] opens once its members have counted it down.
//
// [Mutex.Elect] runs a function in the one process that leads, and campaigns again after a loss.
// [Mutex.Observe] tells other processes who leads. Package gocronlock, a module of its own, has a Locker
// and an Elector for gocron.
//
// A Do inside a Do on the same name reuses the lease that ctx carries: see
// [Lease.Enter]. [Lease.HandOver] passes a lease to another process. Info returns
// the state of a name, List iterates over all names, and ForceRelease takes a lock
// away from a holder that has stopped.
//
// The commands LOCK.ACQUIRE and LOCK.RELEASE give programs in other languages the same locks: see
// examples/samelock.
//
// Every lease has a fencing token that rises from lease to lease of a name. Give it
// to the resource that the lock protects: see [Lease.Token] and package fence. In the
// function of a Do, [FromContext] returns the lease.
//
// # What is promised
//
// While the primary keeps its data and its clock:
//
//   - At most one lease on a name is valid at a time.
//   - The client treats a lease as expired before the server does.
//   - The tokens of a name rise strictly.
//   - A call that is repeated after a lost reply gives the same answer and the same
//     token; a release does so until a later lease on the name is released too.
//   - A lost wake-up delays a waiter until the end of the lease that it saw, by 30 s at
//     most.
//   - The lead of an elected process ends, with the context of its function, before the next one
//     is elected.
//   - A candidate that loses the lead campaigns again, until its function returns in the lead or
//     its ctx ends.
//   - Candidates survive an outage of the server: they try again within a second.
//   - An observer sees who leads within the period that it asks for.
//
// docs/promises.md lists every promise with the tests that check it.
//
// # What is not promised
//
// Exclusion is not promised while a process is paused, through a failover of Redis,
// or through a jump of the server's clock: let the resource refuse tokens that are
// smaller than the largest one it has seen. Waiters are not served in order unless
// [Options].Fair is set.
//
// # How it works
//
// A lock is one key: a hash with the id of its holder, the end of its lease and the
// fencing token. Each operation is one script that decides by the server's clock. A
// waiter queues in the same script that finds the lock busy, and the release wakes
// one waiter by pub/sub, so nobody polls. All waiters of one Client share a place in
// that queue. A Quorum implements Redlock, the algorithm in the Redis documentation,
// and adds tokens that rise whatever the masters' clocks show.
//
// # Sources
//
//   - The lease with a random value, the release that compares it, and Redlock:
//     "Distributed Locks with Redis", in the Redis documentation.
//   - The fencing token: M. Kleppmann, "How to do distributed locking" (2016),
//     after C. Gray and D. Cheriton, "Leases" (SOSP 1989).
//   - The tokens of a Quorum: D. Gifford, "Weighted Voting for Replicated Data"
//     (SOSP 1979). Any two majorities share a master.
package lock
