// Package queue is a message queue on Redis: delays, retries, priorities, ordered groups
// and schedules.
//
// # Use
//
// A [Queue] puts values of one type into named queues, and [Queue.Run] handles them:
//
//	orders, err := queue.New[Order](client, queue.Options{})
//	…
//	id, err := orders.Put(ctx, "orders", order)
//	…
//	err = orders.Run(ctx, "orders", func(ctx context.Context, d *queue.Delivery[Order]) error {
//		return ship(ctx, d.Value)
//	}, queue.RunOptions{Concurrency: 64})
//
// A message is done when the handler returns nil. After an error it is due again when
// [Options.Backoff] has passed, until its attempts are used up and it is dead. Handlers
// can also return [After], [Dead] or [Snooze]. A [Request] adds a delay, an ID, a unique
// key, a lane, a group or messages that must be done before to a message. docs/queues.md has more.
//
// # Promises
//
// While the primary keeps its data:
//
//   - Once a put has returned, its message is handed to a handler until one returns nil,
//     the message is dead, or it is cancelled. Handlers may be called twice for a message
//     (delivery is at least once): make their effects idempotent, by [Job.ID] for
//     example.
//   - A message is never taken before it is due, by the server's clock.
//   - A consumer that has lost a message can't settle it.
//   - A message that kills its consumers dies after its attempts. With [Unlimited]
//     attempts it waits longer after each failure, up to ten minutes.
//   - A repeated put with the ID of a message in the queue adds nothing; it replaces a dead
//     message. A unique key drops further messages for its time.
//   - Messages of a lane are taken in the order in which they became ready. Messages of a
//     group run one at a time and in order, also when one is retried.
//   - A message that comes after others is put once, in the step that settles the last of
//     them. It dies when one of them dies or is removed, unless it ignores failures.
//   - A consumer that stops hands back its unfinished messages, counts no failure, and
//     keeps to its grace period.
//   - Each time of a schedule is put once, by any number of schedulers, whenever one of them dies.
//     A message of a schedule is put when its time has come, by the server's clock, and not before.
//     The schedule says what becomes of missed times.
//   - A change of a schedule counts once the call has returned. A schedule that can't be read, or
//     is refused, stops no other.
//
// Redis replicates asynchronously: a failover may lose the last puts and repeat messages
// that were done, as a crash of the machine may with appendfsync everysec. A server that
// evicts keys loses messages: see [ErrEviction].
package queue

// How it works.
//
// One question decides everything: when can a message be taken? At once, or when its
// delay, its backoff or a consumer's lease is over, by the server's TIME in ms. A queue is
// up to twelve keys; a key without entries does not exist:
//
//	<prefix>:{<name>}:queue  hash  id → envelope: every message, in any state
//	….queue:ready   zset  id → rank of its lane · 2^51 + when it became ready, in µs since 2020
//	….queue:groups  zset  by group: length of its name, its name, a sequence number, an id
//	….queue:wake    zset  a marker: a consumer can take a message
//	….queue:dead    zset  id → when it died
//	….queue:fails   hash  id → number of failures, and the last reason
//	….queue:due     zset  id → when it is due
//	….queue:leases  zset  receipt → when the lease ends; a receipt is a take of 16 bytes and an id
//	….queue:config  hash  pause and limits
//	….queue:blocked zset  id → when it is to be due, and for how many messages it waits
//	….queue:links   zset  for each of these two members: its id and the blocked one, and the reverse
//	….queue:ended   zset  id → 0 done, 1 dead, 2 or 3 removed: its links are not all taken away
//
// Further keys exist for a limited time: queue:take:… of a consumer, queue:result:… and
// queue:unique:…. An empty queue keeps only its settings and schedules.
//
// A queue with schedules has three keys more: queue:schedules, a hash of what was put;
// queue:states, a hash of where each stands, as a text; queue:ticks, a sorted set of ids by
// their next time. A scheduler reads what is due and computes the next time. Then a script
// compares the state with the one that was read, puts the messages and sets the next state.
// So of several schedulers one succeeds, and a change in between makes all of them fail. The
// key {schedules}:queue:scheduled has the names of all queues with schedules, for redoubt serve.
//
// A consumer makes one kind of call, the pump. It settles messages whose handlers have
// returned, makes messages ready that are due or abandoned, takes as many messages as
// the consumer has free places, and returns when to pump again. Messages that finish
// during a call are settled by the next one, so under load many messages share a call.
// While the queue is empty, a second connection blocks on the marker. The marker carries
// no message, so a dropped connection loses none. Invariant: a script that leaves a
// message to take leaves the marker. So a put wakes one consumer, which wakes the next if
// it could not take everything. A consumer sleeps for at most 10 s, or its lease if that
// is shorter.
//
// A message that comes after others is blocked: it is in none of the sets from which consumers
// take. The script that settles a message takes away its links, up to a thousand, and
// leaves the rest to the next pump, which it asks for at once. A blocked message without
// links becomes due. One that lost a link to a failure dies, and its own links with it.
//
// A receipt names one take of a message. The next take has another receipt, so a settle
// with an old one finds nothing. A late settle counts while no other consumer has taken
// the message. If the reply to a pump is lost, the consumer repeats the pump with the
// same take and gets the same messages. So no message waits for its lease to end, and no
// attempt is used up.
