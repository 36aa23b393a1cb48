// Package lock gives distributed locks on Redis.
//
// # Use
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
// Acquire and TryAcquire give a [Lease] to hold by hand:
//
//	lease, busy, err := locks.TryAcquire(ctx, "orders:42")
//	switch {
//	case err != nil:
//		return err
//	case busy != nil:
//		return fmt.Errorf("held for another %v", busy.Remaining)
//	}
//	defer lease.Release(ctx)
//
// A lock that is busy is an answer with the holder's label and the time that its
// lease lasts: [Busy.Err] makes an error of it, [Busy.Wait] waits after all.
//
// Go has no thread to ask who holds a lock, so re-entry is explicit: Do with a ctx
// that carries the lease, as fn's does, runs in that lease, and [Lease.Enter] does
// it by hand. Both count here and send nothing.
//
// A lease goes to another process as text: [Lease.HandOver] ends it here, and
// [Mutex.Resume] takes it up there.
//
// # How it works
//
// A lock is one hash on the server, "<prefix>:{<name>}:lock":
//
//	id             the acquisition that has the lock, or had it last: random
//	until          µs since 1970: until when; 0 once released
//	fence          the fencing token of that acquisition
//	label          for people
//	last           the acquisition that was released last
//	void           the acquisition that was given up last with an unknown outcome
//	forced         the token of who lost the lock by force last
//	head, tail     places in the queue: of the last one woken, of the last one that waits
//	<place>        PUBLISH or SPUBLISH, a blank, and the channel of a client that waits
//	<that waiter>  its place
//
// Every step is one script, and the server's TIME alone decides. A waiter queues
// in the same script that finds the lock held, and the release publishes a
// wake-up to the first in the queue: nobody polls. Whoever leaves the queue gives
// its place to the last in it: so there are no gaps to search, and nobody falls
// back. Two minutes after the last lease on a name ended nothing is left of it.
//
// With [Options].Fair those who wait are served in the order in which they asked.
// They are in a queue of their own, and a release hands the lock to the first in
// it: it is never free in between. Who uses the same name without Fair, as Mutex,
// RWMutex or Multi, gets it when nobody waits with it. A fair waiter whose process
// is gone costs nothing, one that doesn't answer 3 s.
//
// Acquire and release are one round trip each, and the token comes with the
// acquire. A hand-over to a waiter is one release, one acquire, and one more
// command when others of the same client wait behind it.
//
// # Other kinds
//
// A [Semaphore] has a number of permits to a name, each with a lease, an end and
// a token of its own. Its type comment says what stands on the server.
//
// An [RWMutex] is held by one writer or by any number of readers, and is the same
// lock as a Mutex of that name: its readers together are one holder.
//
// A [Latch] lets all go on who wait, once its members have counted it down.
//
// A [Multi] acquires the locks of several names as one, all or none.
//
// A [Quorum] acquires a lock on a majority of several masters that know nothing of
// each other, so that it outlives the others. Its type comment says what that takes.
//
// All kinds share what a lease is, how it is renewed, and how callers wait.
//
// # Who holds what
//
// Info tells who holds a name, since when, with which token, and how many wait.
// List goes over all names that are held. ForceRelease takes a lock away from a
// holder that has stopped and can't release it.
//
// # What is promised
//
// While the primary keeps its data and its clock:
//
//   - At most one lease on a name is valid at a time, whatever befalls the network,
//     and while scripts are flushed, slots move, a shard is dead, or a server that
//     keeps a log is killed and comes back. (TestHistory, TestMutualExclusion,
//     TestTryAcquire)
//   - A lease is over here before it is over on the server, whatever the
//     network does: Done, Err and the Context tell so by the local deadline.
//     (TestLeaseEndsWhenServerIsUnreachable, TestDeadlineCountsFromTheSending)
//   - No lease is handed out that is over when its reply comes: it is given back.
//     One that is handed out lasts, even when the caller's context has just ended.
//     (TestNoLeaseIsOverOnArrival, TestLeaseThatIsOverOnArrivalIsGivenBack,
//     TestLeaseOfTheLastMomentLasts)
//   - The Context of a lease ends with the reason why: released, run out, taken
//     away. (TestContextSaysWhy)
//   - A lease is entered again without a command, and not once its deadline has
//     passed; the last one out releases the lock. (TestReentryCostsNothing,
//     TestNoReentryAfterTheDeadline, TestReentryHasItsBounds,
//     TestLastOneOutReleases)
//   - A lease that was handed over goes on where it is resumed, with a deadline
//     counted from the sending of a confirmed extension, and not here; a stale
//     handle is refused. (TestHandOver, TestStaleHandleIsRefused,
//     TestResumedDeadlineCountsFromTheSending)
//   - With Replicas, a lock is had only when as many have it, and is given back
//     otherwise. (TestReplicas, TestReplicasOfNone, TestReplicasOnACluster)
//   - Release and Extend never touch another's lease.
//     (TestStaleLeaseIsRefused)
//   - Tokens on one name rise strictly, and go on rising when the key has gone, and
//     through each of FLUSHALL, a failover, and a step of the server's clock by
//     itself. (TestTokensRise, TestHistory)
//   - A call repeated after a lost reply gives the same answer and the same
//     token, a release until a later lease on the name was released too.
//     (TestLostReplies, TestRepeatedRelease)
//   - An acquire that was released or given up and arrives late takes nothing,
//     unless another was released or given up since. (TestLateAcquireIsVoid)
//   - An extension never makes a lease shorter, in whatever order extensions
//     and their replies arrive. (TestExtend)
//   - ForceRelease ends the lease with the token that it names and no other, and
//     its holder learns of it when it renews. (TestForceRelease,
//     TestForcedLeaseIsOver, TestForceHitsAllReadersAndOnePermit)
//   - List finds every lock that is held from its beginning to its end.
//     (TestList, TestListOnACluster)
//   - Leases are renewed in time however many there are, before a third of their
//     TTL has gone, and on a node of a cluster whatever the other nodes do.
//     (TestRenewalsAreSpread, TestSlowNodesDelayNoOther, TestManyLocksOutliveAShard,
//     TestNewLocksAfterALossAreRenewed, TestNothingIsRenewedAfterRelease)
//   - No wake-up is lost for longer than the lease that the waiter saw, at
//     most 30 s. (TestWakeUp, TestCancelledWaiterPassesOn, TestNobodyWakesTheWaiter)
//   - With Fair, those who wait are served in the order in which they queued,
//     whatever their process, by two commands each; nobody who came later gets in
//     between, and a dead one costs 3 s at most.
//     (TestFairOrder, TestFairHistory, TestFairScriptsFollowTheModel,
//     TestFairLetsNobodyIn, TestFairAndUnfair, TestFairOrderWhenTheHolderDies,
//     TestFairHasTimeToComeWhenTheHolderDied, TestFairDeadHead,
//     TestHistory, TestFairWaitsLeaveNothing, TestFairLeavesTheQueueAfterALostReply)
//   - Of a semaphore at most limit permits are held at a time, with tokens that
//     rise; those of dead holders come back. (TestHistory,
//     TestSemaphoreFollowsTheModel, TestCallersDisagreeOnTheLimit,
//     TestExpiredPermits)
//   - No writer holds an RWMutex or a Mutex beside readers or another writer;
//     readers carry the token of the last writer, and one that died is in the way
//     no longer than its own lease. (TestReadersAndWriters, TestHistory,
//     TestRWFollowsTheModel, TestReadLeases, TestNoZombieReaders)
//   - A writer that waits keeps new readers out; one that died does so for 3 s at
//     most. (TestWriterPreference, TestDeadWriterKeepsNobodyOut)
//   - A member counts a latch down once, however often it says so; all who wait
//     are woken at zero; nothing is left of it when its TTL is over.
//     (TestLatchCounts, TestLatchWakesAll, TestLatchRunsOut)
//   - A Multi holds all its names or, in the end, none; Multis whose sets overlap
//     never wait for each other. (TestMultiTakesAllOrNone, TestMultiWaitsInOrder,
//     TestCancelledMultiGivesAllBack, TestOverlappingMultisDoNotDeadlock,
//     TestMultiTakenAwayBeforeItsReply, TestLateMultiIsVoid, TestMultiOnACluster,
//     TestHistory)
//   - A Quorum's lease lasts while a majority of the masters is there, whatever
//     befalls the others and their clocks, and no two are valid at a time; masters
//     that come back have it again. (TestQuorumWithEverySubset,
//     TestQuorumOutlivesAMaster, TestQuorumOutlivesAClockStep,
//     TestQuorumWithoutMajority, TestQuorumHistory)
//   - Tokens of a Quorum rise strictly, whatever the clocks of the masters.
//     (TestQuorumTokensRiseWhateverTheClocks, TestQuorumHistory)
//   - A Quorum whose attempts are cut short leaves nothing, those that try at the
//     same time all get their turn, and whoever waits for a holder sends nothing.
//     (TestQuorumUndoesUnknownOutcomes, TestQuorumCancelledWaitsLeaveNothing,
//     TestQuorumSplitVotesResolve, TestQuorumWakesUp,
//     TestQuorumGivesBackWhatComesLate, TestQuorumLeavesTheQueueAfterLostReplies)
//   - What is said above of the deadline, of lost replies, of wake-ups and of late
//     acquires holds for every kind; semaphores and readers remember the last 128
//     that are over. (TestLeaseEndsWhenServerIsUnreachable,
//     TestEveryKindSurvivesLostRepliesAndScripts, TestEveryKindWakesUp,
//     TestLateCopiesOfEveryKindAreVoid, TestCrowds)
//
// # What is not promised
//
// Exclusion while a process is paused (SIGSTOP, a long GC pause, a suspended
// virtual machine): it can't see that its deadline passes. Exclusion through a
// failover: Redis replicates asynchronously, and a new primary may not know the
// lock, though [Options].Replicas makes that less likely. Exclusion through a jump
// of the server's clock. Against all three a resource can defend itself by refusing tokens smaller than the largest that
// it has seen: [Lease.Token]. If that is not possible and a second holder would
// do harm, use a consensus system instead.
//
// A [Quorum] needs no failover, but masters that don't forget: one that restarts
// empty grants what is held on the others, and is enough for a second majority when
// the lease was on no more than a majority. See [Quorum] for what to do about it.
// (TestQuorumTakenAway, TestQuorumTakenAwayByForce)
//
// Fairness is not promised either without [Options].Fair: but for the preference of
// writers, whoever asks first after a release gets the lock, waiter or not. With it,
// the order is that in which the server was asked, and is kept as long as the server
// keeps its data; who doesn't answer for 3 s, or lost the connection over which it
// would be woken, may lose its place.
//
// # Sources
//
// The lease with a random value and the compare-and-delete release are those of
// the Redis documentation (Distributed Locks with Redis); the fencing token is
// described by M. Kleppmann, "How to do distributed locking" (2016), after
// C. Gray and D. Cheriton, "Leases: An Efficient Fault-Tolerant Mechanism for
// Distributed File Cache Consistency" (SOSP 1989). A [Quorum] is the algorithm Redlock
// of the same Redis documentation; that its tokens rise rests on what any two
// majorities share: D. Gifford, "Weighted Voting for Replicated Data" (SOSP 1979).
package lock
