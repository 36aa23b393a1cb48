// Package queue keeps messages for later, on Redis: now, after a delay, again after
// a failure, in order where that is asked for; and wakes who works on them.
//
// # Use
//
// A [Queue] is a family of queues of messages of one type. Put puts a value into
// one of them, Run works on it:
//
//	orders, err := queue.New[Order](client, queue.Options{})
//	…
//	id, err := orders.Put(ctx, "orders", order)
//	…
//	err = orders.Run(ctx, "orders", func(ctx context.Context, d *queue.Delivery[Order]) error {
//		return ship(ctx, d.Value)
//	}, queue.RunOptions{Concurrency: 64})
//
// What the handler returns says how the message goes on: nil, and it is done; an
// error, and it comes back after [Options.Backoff], until its attempts are used up
// and it is dead; [After], [Dead] and [Snooze] say it more exactly. Handlers must
// bear to be called twice for a message: see below.
//
// A [Request] has what else a message can have: a delay, an id that makes a put safe
// to repeat, a key that drops duplicates, a lane, a group. [Queue.Schedule] puts
// messages by a calendar, a [Topic] gives them to several subscribers.
// [Queue.Limit] bounds all consumers together, [Queue.Pause] stops them.
// Package enginetest is for unit tests.
//
// # How it works
//
// Everything is one question: when can a message be taken? At once, when its delay
// is over, when its backoff is, when the lease of whoever has it has run out. The
// server's TIME in ms alone decides. A queue is nine keys, of which those are there
// that something is in:
//
//	<prefix>:{<name>}:queue  hash  id → envelope: every message, in whatever state
//	….queue:ready   zset  id → rank of its lane · 2^51 + since when it is ready, in µs since 2020
//	….queue:groups  zset  of groups: the length of the name and the name, a place in line, an id
//	….queue:wake    zset  a marker: somebody can take something
//	….queue:dead    zset  id → when it died
//	….queue:fails   hash  id → how often it failed, and why at last
//	….queue:due     zset  id → when it is due
//	….queue:leases  zset  receipt → when the lease ends; a receipt is a take of 16 bytes, and an id
//	….queue:config  hash  pause and limits
//
// and, each for a time only, queue:take:… of a consumer, queue:result:… and
// queue:unique:…. Nothing is left of a queue that is empty, but its settings.
//
// A consumer makes one kind of call, the pump: it settles what handlers have
// finished, brings back what is due or abandoned, takes as many as there are free
// places, and learns when to come again. What finishes during a call is settled by
// the next one, so that under load many messages share a call, and none waits for
// company. While nothing is there, a second connection blocks on the marker; it
// carries no message, so that nothing is lost with it, and whatever happens to it,
// the consumer pumps. The invariant is that a script which leaves something to take
// leaves the marker; so one put wakes one consumer, which wakes the next if it could
// not take all. A consumer sleeps for 10 s at most, or for its lease if that is
// shorter.
//
// A message on lease is named by its receipt. Whoever takes it next has another one,
// and a settle that comes too late finds nothing. A settle that is late, but not too
// late, counts.
//
// A pump whose reply was lost is repeated with the same take and gets the same
// messages: nothing is held by nobody until a lease is over, and no attempt is used.
//
// # What is promised
//
// While the primary keeps its data:
//
//   - At least once: after Put has returned, a message is handed to a handler until
//     one returns nil, or it is dead, or it was cancelled. (TestRun, TestOutcomes,
//     TestPoison)
//   - Not before it is due, whatever the clocks of clients say.
//     (TestNeverBeforeDue)
//   - A settle of one who does not have the message any more is refused.
//     (TestLateAndStaleSettle, TestTakeThatRepeats, TestCancel)
//   - No message kills consumers for ever: a lease that runs out is a failure, and
//     what can't be read is dead. One with unlimited attempts whose lease runs out is
//     in front again after its first failure, and later after each further one, up to
//     ten minutes. (TestPoison, TestPoisonWithoutEnd, TestOutcomePanics,
//     TestUnreadableMessage)
//   - A put that is repeated does nothing while the message is in the queue, a dead
//     one excepted, which it replaces, and with a unique key as long as that lasts.
//     (TestPutIsIdempotentUntilAcked,
//     TestUnique)
//   - Within a lane those that were ready first are taken first.
//     (TestPutTakeAck, TestLanes) Those that became due in the same ms go by id: ids
//     that one process made in the order in which it made them, ids of your own
//     in that of their bytes. (TestIDsAreInOrder)
//   - Of a group one message is at work, in the order in which they became ready; one
//     that failed keeps its turn. (TestGroups, TestGroupsWhileNobodyLooks)
//   - A handler's place is free when it has returned, and not before; its context
//     ends when its message is not its own any more. (TestLeaseIsExtendedAndLost,
//     TestShutdown, TestBatchesAtOnce, TestLostTakeWithinItsLease)
//   - A consumer that stops hands back what it has not finished, and no attempt is
//     counted; its grace is kept whatever the server does. (TestShutdown,
//     TestTakenWhenStopped, TestGraceWithoutServer)
//   - Each time of a schedule is put once, by however many schedulers.
//     (TestScheduleOnce)
//
// # What is not promised
//
// Exactly once: a handler whose process dies before its message is settled was
// called all the same. Have it write by an id, like [Job.ID]. An order among
// messages that fail and have no group. A message whose running handler was
// cancelled is gone at once, and one of the same group can begin before that handler
// has noticed. Anything through a failover: Redis replicates asynchronously, and a
// new primary may not know the last puts, nor that the last messages were done; with
// appendfsync everysec the same is true of the last second or two when the machine
// dies. A server that evicts keys loses messages: see [ErrEviction].
package queue
