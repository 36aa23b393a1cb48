// Package bloom answers "was this seen before?" for very many items in little memory, on Redis. Its
// Bloom filters are sharded over a cluster, can be rebuilt while they are used, can forget with time,
// and can be mirrored in memory.
//
// # Use
//
// Make one [Filters] and open a filter by its name and its purpose:
//
//	filters, err := bloom.New(client, bloom.Options{})
//	…
//	seen, err := filters.Open(ctx, "mails", bloom.Spec{Capacity: 1_000_000, ErrorRate: 0.01})
//	…
//	isNew, err := seen.Add(ctx, "ann@example.com")
//	…
//	maybe, err := seen.MayContain(ctx, "bob@example.com")
//
// If MayContain returns false, the item was never added. If it returns true, the item was added, or the
// answer is a false positive. With this Spec and a full filter, one in a hundred items that were never
// added gets a false positive; in an emptier filter fewer do. AddMany and MayContainMany take many items
// in one round trip.
//
//   - [Filter.Rebuild] and [Filter.Grow] fill a new generation from the place where the items are
//     stored, while the filter is in use.
//   - [SlidingFilters] are for "seen in the last week".
//   - [Filter.Mirror] keeps a copy in memory, which answers without a round trip.
//   - [Local] is a filter of one process, without a server.
//
// # What is promised
//
// While the server keeps its data:
//
//   - An item whose Add returned is found by every process, during and after a rebuild.
//   - When several callers add an item at once, it is new to one of them.
//   - Up to its capacity, a filter's error rate is at most Spec.ErrorRate.
//   - Many items are one round trip to each server.
//   - A mirror finds every item that was added more than MaxAge before, and without news for MaxAge it
//     answers "maybe".
//   - A sliding filter finds every item of its window and forgets it at most a period later.
//
// When the server loses data or a process dies:
//
//   - A lost key or an error makes the answer "maybe" and never "no".
//   - If a process dies while it makes or rebuilds a filter, the filter still works, and no leftover keys
//     remain: another process removes them, or they expire.
//
// # What is not promised
//
// When a primary fails, writes that no replica had are lost, as always with Redis. A filter can't
// detect lost items; it detects only whole keys that are missing. When the key that describes the
// filter is lost too, Open makes a new filter. An item can't be deleted: rebuild without it. At the end
// of a rebuild, in the moment between the deletion of the old keys and the change, answers are "maybe",
// and Add may report an item as not new if the iterator has supplied it. The hash is fast and not
// secret: an attacker who chooses the items can choose false positives. For a sliding filter the clocks
// of a cluster's nodes may differ by up to a second, or half a period if that is less.
//
// # How it works
//
// A filter consists of blocks of 512 bits. The hash of an item chooses a block and 1 to 16 bits in it
// (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007). So looking up an
// item is one GETRANGE of 64 bytes. It needs no script, and a replica can answer it. Other filters on
// Redis look up each bit separately. A filter of this package takes 9.94 bits an item at an error rate
// of 0.01, where a classic filter takes 9.59; 7.45 at 0.03, 15.5 at 0.001; below 0.0001 at least a
// third more than a classic filter. Rejected: one bit in each of 8 words (split blocks), which saves a
// little time in memory and takes 10.1 bits at 0.01.
//
// The blocks are in keys of at most 4 MiB, with hash tags of their own, so a filter is spread over the
// nodes of a cluster:
//
//	<prefix>:{<name>}:bloom                     hash    describes the filter
//	<prefix>:{<name>:<generation>:<n>}:bits     string  the n-th shard, with bits numbered as SETBIT does
//	<prefix>:{<name>:<generation>:<n>}:log      string  new items, for mirrors; only while there are any
//	<prefix>:{<name>}:sliding                   hash    describes a sliding filter
//
// The fields of the hash are:
//
//	current  capacity, error rate, id, blocks, shards and bits an item of the generation in use
//	ready    1 once all its keys were made
//	next     the same as current, for the generation that is being filled
//	builder  the process that fills it; until: when it counts as dead, in µs
//	filled   1 once next has all items
//	seal     how many rebuilds were begun
//
// All keys of a generation are made at once, of zeros. After that a missing key is a lost key: it was
// evicted or deleted, or never reached the replica that became primary. Its items may have been added.
// So Add never makes it anew, and its items get "maybe" until a rebuild.
//
// Add is one script with one BITFIELD for each item, whose old bits tell whether the item is new.
//
// A rebuild makes the keys of the next generation and writes next into the hash. Then it seals the
// shards of the current generation by one more byte at their end. An Add names the number of seals that
// its process knows; a shard with one more refuses it. The process then reads the hash, and adds to both
// generations. Only then does the rebuild call the iterator. At the end it deletes the old keys first
// and makes the new generation the current one after that. In the other order, a process that does not
// know of the change would look at the old keys and miss items that others add to the new ones. A
// process that finds a lost key reads the hash, at most once a second. An interrupted rebuild blocks
// the next one for at most a minute.
//
// A sliding filter has a generation for each period, and the keys of each expire. The server's TIME
// decides the period of an item.
package bloom
