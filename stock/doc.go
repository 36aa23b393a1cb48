// Package stock sells a limited number of units without overselling: callers reserve units
// for a time, then commit or cancel. Units of a reservation that expires are back on sale.
//
// # Use
//
// An [Inventory] has named items. Set says once how many units an item has. Do reserves
// some, runs a function, and sells them if it succeeds:
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
// If the payment comes later, perhaps to another process, use the number of the order as
// the ID. All calls with an ID may be repeated:
//
//	r, short, err := items.ReserveRequest(ctx, "sku:42", stock.Request{N: 1, ID: order})
//	…
//	err = items.Commit(ctx, "sku:42", order) // or Cancel
//
// Each step is one script on the server; a buyer never waits for another.
//
// # Promises
//
// While the primary keeps its data:
//
//   - Available, reserved and sold units together are always the total that was set and
//     added: no unit is oversold and none is lost, whatever fails or is repeated.
//   - A reservation ends once: committed, cancelled or expired. A commit after its time
//     matches [ErrExpired], even if nobody has taken the units since.
//   - Expired units can be reserved again at once.
//   - Reserve, Commit, Cancel and Set may be repeated, and are sent again after a lost
//     reply, with one effect and the same answer. If another client adds units between two
//     tries of a Set, the Set wins.
//   - A reserve that arrives after its cancel takes nothing.
//   - A reserve whose caller has left gives its units back.
//   - With appendonly and appendfsync always, acknowledged calls survive a killed server.
//   - Info and List change nothing, and count expired units as available.
//   - List finds every item that exists during the whole listing.
//   - The reservations of one TTL and of the last hour bound the stored data.
//
// Redis replicates asynchronously: a failover may lose the last sales and reservations.
// An ID is remembered for an hour after its reservation is over ([Remembered]); later a
// commit matches [ErrNotFound], and a reserve takes units anew. Buyers are not served in
// order: a request for few units can pass one for many.
package stock

// How it works.
//
// An item is three keys; the last two may be missing:
//
//	<prefix>:{<name>}:stock  hash  total, available, sold: numbers of units
//	                               next: no reservation expires before, in µs since 1970
//	                               tidy: when to forget ids that are over, in µs since 1970
//	                               :<id>: a reservation: its units and, in the last 16
//	                               digits, when it expires
//	<prefix>:{<name>}:due    zset  :<id> of reservations, by expiry
//	<prefix>:{<name>}:over   zset  :<id> of reservations that are over, by the time until
//	                               which that is remembered, in µs; the last digit is how it
//	                               ended: 1 committed, 2 cancelled, 3 expired, 4 cancelled
//	                               before it was reserved
//
// Reserved is total − available − sold. It is not stored, so it can't disagree. The
// server's TIME alone decides what has expired.
//
// Nothing runs in the background. A reserve first returns expired reservations: as many as
// it could need, at least two and at most 512. Each holds at least one unit, so one call
// decides a reserve of up to 512 units; a reserve of more repeats itself until nothing more
// can come back. Set and Add return 512 and go on if the result depends on it. So expired
// reservations never pile up on an item that sells, and no call does work in proportion to the number of
// reservations. Nothing expires before next, so until then no call searches. Info and List return none: they add the
// units of at most 4,096 expired reservations to the available ones.
//
// Once a minute a call that ends a reservation forgets ids whose hour is over: 64 at a
// time, or twice as many as it adds, until none is left. An hour and a minute after the
// last call on an item all are gone. Then an item is one hash of five numbers, until
// [Inventory.Delete].
//
// While the slot of an item moves to another node of a cluster, calls on it wait for that
// or for their ctx. The server frees the keys of an item in one go: 100,000 ids take some
// 20 ms, unless lazyfree-lazy-expire is on.
