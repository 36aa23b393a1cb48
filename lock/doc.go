// Package lock gives distributed locks on Redis.
//
// A [Mutex] is a family of named locks that share one configuration. Do runs a
// function while the lock is held, renews the lease as long as it runs, and
// ends its context when the lease is lost:
//
//	locks, err := lock.New(client, lock.Options{TTL: 10 * time.Second})
//	…
//	err = locks.Do(ctx, "orders:42", func(ctx context.Context) error {
//		return ship(ctx, 42)
//	})
//
// Acquire and TryAcquire give a [Lease] to hold by hand. A lock that is busy is an
// answer, [Busy], with the holder's label and the time that its lease lasts:
//
//	lease, busy, err := locks.TryAcquire(ctx, "orders:42")
//
// Each lease has a fencing token that rises from lease to lease of a name: see
// [Lease.Token] and package fence.
//
// A [Semaphore] has several permits to a name. An [RWMutex] is held by one writer or
// by any number of readers. A [Latch] opens once its members have counted it down. A
// [Multi] acquires the locks of several names, all or none. A [Quorum] needs a majority
// of several independent masters, so that it outlives the others.
//
// Do with a ctx that carries the lease, as fn's does, runs in that lease:
// [Lease.Enter] says how. [Lease.HandOver] gives a lease to another process. Info tells
// who holds a name, List goes over all names, ForceRelease takes a lock away from a
// holder that has stopped.
//
// # What is promised
//
// While the primary keeps its data and its clock, at most one lease on a name is
// valid at a time; a lease is over here before it is over on the server; tokens on a
// name rise strictly; a call that is repeated after a lost reply gives the same
// answer; no wake-up is lost for longer than 30 s. docs/promises.md has every promise,
// with the tests that hold it.
//
// Not promised: exclusion while a process is paused, through a failover, or through
// a jump of the server's clock. Let the resource refuse tokens smaller than the
// largest that it has seen. Nor is fairness without [Options].Fair.
package lock
