// Package bloom answers "was this seen before?" for very many items in little
// memory, on Redis: Bloom filters that are sharded over a cluster, that can be
// rebuilt while they are used, that forget with time, and that are mirrored in
// memory.
//
// # Use
//
// Filters are made once, and a filter is opened by name, with what it is for:
//
//	filters, err := bloom.New(client, bloom.Options{})
//	…
//	seen, err := filters.Open(ctx, "mails", bloom.Spec{Capacity: 1_000_000, ErrorRate: 0.01})
//	…
//	isNew, err := seen.Add(ctx, "ann@example.com")
//	…
//	maybe, err := seen.MayContain(ctx, "bob@example.com")
//
// False from MayContain is certain. True is wrong for one item in a hundred that was
// never added, once as many items are in as the capacity says, and less often
// before. AddMany and MayContainMany take many items in one round trip.
//
//   - [Filter.Rebuild] and [Filter.Grow] fill a new generation from where the items
//     are kept, while the filter is in use.
//   - [SlidingFilters] is for "seen in the last week".
//   - [Filter.Mirror] keeps a copy in memory: answers without a round trip.
//   - [Local] is a filter of one process, without a server.
//
// # How it works
//
// A filter is blocks of 512 bits. The hash of an item chooses a block and 1 to 16
// bits in it (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom
// Filters, 2007). So a look at an item is one GETRANGE of 64 bytes, which needs no
// script and may be asked of a replica, where other filters on Redis look at each bit
// by itself. It takes 9.94 bits an item at an error rate of 0.01, where a classic
// filter takes 9.59; 7.45 at 0.03, 15.5 at 0.001; below 0.0001 a third more than a
// classic one and up. Rejected: one bit in each of 8 words (split blocks), which saves a
// little time in memory and takes 10.1 bits at 0.01.
//
// The blocks are in keys of 4 MiB at most, with hash tags of their own, so that a
// filter is spread over the nodes of a cluster:
//
//	<prefix>:{<name>}:bloom                     hash    what it is
//	<prefix>:{<name>:<generation>:<n>}:bits     string  the n-th shard, its bits as those of SETBIT
//	<prefix>:{<name>:<generation>:<n>}:log      string  new items, for mirrors; only while there are
//	<prefix>:{<name>}:sliding                   hash    what a sliding filter is
//
// The fields of the hash are:
//
//	current  capacity, error rate, id, blocks, shards and bits an item of the generation in use
//	ready    1 once all keys of it were made
//	next     the same as current of the generation that is being filled
//	builder  who fills it; until when he counts as alive, in µs
//	filled   1 once next has all items
//	seal     how many rebuilds were begun
//
// All keys of a generation are made at once, of zeros. From then on a key that is not
// there is lost, whether it was evicted, deleted or never reached a replica that
// became primary, and what was in it may have been added. Add never makes it anew. Its
// items are answered with "maybe" until a rebuild.
//
// Add is one script with one BITFIELD for each item, whose old bits tell whether it is
// new.
//
// A rebuild makes the keys of the next generation, tells of it in the hash, and then
// seals the shards of the current one, by a byte more at their end. Who adds says how
// many seals he knows of, and is turned away by one more; he then reads the hash, and
// adds to both. Only then the iterator is asked. At the end the old keys are deleted,
// and after that the new generation is made the current one: were it the other way
// round, who has not heard of it would look at the old keys and miss what others add
// to the new. Who finds a key lost reads the hash, at most once a second. A rebuild
// that is interrupted is in nobody's way after a minute.
//
// A sliding filter has a generation for each period, which goes by its own expiry. The
// server's TIME decides into which period an item goes.
//
// # What is promised
//
// While the server keeps its data:
//
//   - An item whose Add returned is never denied, by whomever it was added, while and
//     after the filter is rebuilt. (TestAddAndMayContain, TestAddsDuringRebuilds,
//     TestRebuild, TestNobodyMissesTheEndOfARebuild)
//   - Of those who add an item at the same time one hears that it is new.
//     (TestConcurrentAdders)
//   - The error rate is at most the one asked for, at the capacity. (TestErrorRate,
//     Example_onePercent, Example_threePercent, TestHundredMillion)
//   - Many items are one round trip to each server. (TestRoundTrips)
//   - A mirror denies nothing that was added more than MaxAge before, and denies
//     nothing at all when it hears nothing for as long. (TestMirror,
//     TestMirrorFollowsARebuild, TestMirrorLogs, TestMirrorsAge, TestMirrorWithoutNews)
//   - A sliding filter denies nothing that was added within its window, and keeps
//     nothing for longer than a period more. (TestSliding, TestSlidingByTheServersClock,
//     TestSlidingClocksApart)
//
// And while it does not:
//
//   - A key that is lost denies nothing, and an error neither. (TestLostKey,
//     TestSlidingLostKey, TestMaybeWithAnError)
//   - A process that dies while it makes or rebuilds a filter leaves one that works, and
//     no keys that another doesn't remove. (TestOpenGoesOn, TestMakingAFilterTakesItsTime,
//     TestDeadBuilder, TestOthersEndARebuild, TestRebuildOfUnknownOutcome,
//     TestTakenOverRebuild, TestLongRebuild)
//
// # What is not promised
//
// When a primary fails, writes that no replica had are lost, as always with Redis, and
// so are the items in them, without a sign of it: only whole keys are missed. When the
// key that describes the filter is lost too, Open makes a new one. An item can't be
// deleted; rebuild without it. While a rebuild ends, for the moment between the deletion
// of the old keys and the change, answers are "maybe", and Add may call an item old
// that the iterator has given. The hash is fast and not secret: who chooses the items
// can choose such as are false positives. A sliding filter is as exact as the clocks of
// a cluster's nodes agree: they may be up to a second apart, or half a period.
package bloom
