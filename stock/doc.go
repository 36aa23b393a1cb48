// Package stock keeps count of things that are sold, on Redis, so that nothing
// is sold twice: units of an item are reserved for a time, and then committed,
// cancelled, or back by themselves.
//
// # Use
//
// An [Inventory] is a family of items. Set says once how many units there are.
// Do reserves some, runs a function, and sells them if it succeeds:
//
//	items, err := stock.New(client, stock.Options{TTL: 10 * time.Minute})
//	…
//	_, err = items.Set(ctx, "sku:42", 100)
//	…
//	short, err := items.Do(ctx, "sku:42", 1, func(ctx context.Context) error {
//		return charge(ctx, order)
//	})
//	switch {
//	case err != nil:
//		return err
//	case short != nil:
//		return fmt.Errorf("sold out; %d may come back, from %v on", short.Reserved, short.Next)
//	}
//
// When the payment comes later, to another process it may be, the number of the
// order is the id. All calls by an id may be repeated:
//
//	r, short, err := items.ReserveRequest(ctx, "sku:42", stock.Request{N: 1, ID: order})
//	…
//	err = items.Commit(ctx, "sku:42", order) // or Cancel
//
// A lock around reading and writing a number does the same for one buyer at a
// time. Here a buyer waits for nobody: each step is one script on the server.
//
// # How it works
//
// An item is three keys, of which the last two may be missing:
//
//	<prefix>:{<name>}:stock  hash  total, available, sold: numbers of units
//	                               next: no reservation runs out before, in µs since 1970
//	                               tidy: when to forget ids that are over, in µs since 1970
//	                               :<id>: a reservation, its units and, in the last 16
//	                               digits, when it runs out
//	<prefix>:{<name>}:due    zset  :<id> of reservations by when they run out
//	<prefix>:{<name>}:over   zset  :<id> of those that are over by until when that is
//	                               remembered, in µs; the last digit says how it ended: 1 committed,
//	                               2 cancelled, 3 ran out, 4 cancelled before it was reserved
//
// What is reserved is total − available − sold: it is written nowhere, so it
// can't come apart. The server's TIME alone decides what has run out.
//
// Nothing runs in the background. A reserve first puts back on sale what has run
// out: as many reservations as it could need, at least two and at most 512.
// Since each holds a unit, one that asks for no more than 512 units is decided
// in one call; one for more is repeated by itself until nothing more can come
// back. Info, Set and Add put back 512 and, where it matters, go on. So what is
// abandoned never piles up, and no call does work for the number of reservations.
// Before next there is nothing to put back, so nobody looks.
//
// That an id is over is remembered for an hour ([Remembered]). Once a minute a
// call that adds one forgets those whose hour is over, 64 at a time or twice as
// many as it adds, until none is left; an hour and a minute after the last call on
// an item all of them are gone at once. What is left then of an item is one hash
// of five numbers, until [Inventory.Delete].
//
// # What is promised
//
// While the primary keeps its data:
//
//   - Never more is reserved and sold than there is, and nothing is lost:
//     available + reserved + sold is what was set and added, whatever befalls the
//     network, those who call and the server's clock, and while scripts are
//     flushed, slots move or a shard is dead. (TestHistory, TestConcurrentBuyers,
//     TestScriptsFollowTheModel)
//   - A reservation ends once: committed, cancelled or run out. A commit after
//     its time matches [ErrExpired], also when the units have not been needed
//     since. (TestRepeatedCalls, TestHistory)
//   - What ran out can be reserved again at once. (TestExpiredUnitsComeBack,
//     TestMoreExpiredThanABatch)
//   - Reserve, Commit, Cancel and Set may be repeated, and are sent again after a
//     lost reply, with one effect and the same answer; but a Set that is sent again
//     after another's Add has the last word. (TestLostReplies, TestRepeatedCalls,
//     TestScriptFlush)
//   - A reserve that arrives after its cancel takes nothing.
//     (TestCancelInMidReserve)
//   - A reserve whose caller has left gives its units back.
//     (TestUnknownOutcome, TestCancelledDoLeavesNothing)
//   - With appendonly and appendfsync always, what was acknowledged is there
//     after the server was killed. (TestKilledServer, TestHistory)
//   - List finds every item that is there from its beginning to its end.
//     (TestList, TestListOnACluster, TestListOfMuchThatRanOut)
//   - What is stored is bounded by the reservations of one TTL and the ends of
//     an hour and some minutes. (TestNothingPilesUp)
//
// # What is not promised
//
// The count through a failover: Redis replicates asynchronously, and a new
// primary may not know the last sales, nor the last reservations. The answer to a
// call that is repeated more than an hour after the reservation is over: it
// matches [ErrNotFound], and a reserve takes units anew. An order among buyers:
// who asks for many units can be passed by those who ask for few.
//
// On a cluster, while the slot of an item moves to another node, calls on it wait
// for that or for their ctx.
//
// The keys of an item that sold very many in its last hour are freed by the server
// in one go: 100,000 ids take it some 20 ms, unless lazyfree-lazy-expire is on.
package stock
