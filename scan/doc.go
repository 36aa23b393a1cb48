// Package scan iterates over all keys of a server or a cluster, and over the elements of big hashes, sets
// and sorted sets. It scans all nodes at the same time, in small steps that don't hold up other clients,
// and it can resume an earlier scan.
//
// # Use
//
//	scanner, err := scan.New(client, scan.Options{})
//	…
//	keys, err := scanner.Keys(scan.Query{Match: "session:*", Type: "hash"})
//	…
//	for key, err := range keys.All(ctx) {
//		if err != nil {
//			return keep(keys.Token(), err) // and later: scan.Query{…, From: token}
//		}
//		…
//	}
//
// Keys are whole keys, as they are on the server, without a Client's prefix.
//
//   - [Scanner.Hash], [Scanner.Set] and [Scanner.SortedSet] iterate over the elements of one key.
//   - [Iterator.Pages] yields many items at once.
//   - [Scanner.Delete] and [Scanner.Expire] change the keys of an iterator. [Scanner.Report] finds the
//     biggest keys and the heaviest prefixes among them.
//   - [Iterator.Token] is the position of a scan, as a text that outlives the process.
//
// # What is promised
//
//   - A scan yields every key or element that exists from its beginning to its end: while others are
//     added and removed, while hash tables grow and shrink, while slots move from node to node, and
//     when a server is restarted.
//   - An Iterator yields nothing twice as long as fewer than [Options.Remember] other items lie between.
//   - A scan that resumes with a token yields everything that is left, also when slots have moved
//     since, a node was replaced or its server restarted.
//   - A scan that resumes on unchanged nodes repeats at most one page per node, and nothing while the
//     servers' tables don't change.
//   - A token of another query or of another cluster is refused. So is a token that was cut off.
//   - Delete and Expire reach every key that their iterator yields, also when they are called again after
//     an error. They work on all nodes of a cluster at the same time. A dry run changes nothing.
//   - A Report has the biggest of the keys that it measured, in bounded memory, and says by how much it
//     may overestimate a prefix.
//   - A loop ends when its ctx ends, leaves no goroutine behind, and can be continued.
//
// # What is not promised
//
// Items that are added or removed meanwhile may be yielded or not. There is no order. A value, a type or
// a score is from some moment of the scan. A token of one server doesn't tell its databases apart. A
// slot of a cluster that moves to another node and back while its node is scanned looks as if it had
// stayed, and the scan may miss its keys. The same holds for a slot whose move is given up with keys on
// both sides. The user needs the right to INFO, and on a cluster to CLUSTER NODES.
//
// Behind a pool of redoubt serve the servers are scanned as one server with one run_id. Keys can't be
// scanned through a pool in front of a cluster, because the pool doesn't know which slots are moving; such a
// scan is refused.
//
// # How it works
//
// SCAN iterates over a server's hash table with a cursor that counts with its bits reversed. It returns
// every key that is in the table from the first call to the last, though the table grows and shrinks,
// but it may return a key more than once. This holds for one server process. Another process, such as a
// promoted replica or the same server after a restart, has another hash function, and the cursor means
// nothing to it. So each page comes with the server's run_id. When the run_id changes, the scan of
// that node starts again.
//
// On a cluster a key can move, with its slot, from a node that has not returned it yet to a node whose
// scan is already past its place. So a slot counts as done when it was at one node from the beginning to
// the end of that node's scan. A slot that is on its way to another node at the end is scanned on that
// node from then on. A slot that belongs to another node by then, or whose node was replaced, is scanned
// there. A scan of a cluster at rest costs one CLUSTER NODES per node at the beginning and one at the
// end.
//
// The Iterator drops repeated items: it remembers 128-bit hashes of the last items. The token doesn't
// contain them. When a loop ends within a page, the token has a hash of the page and the number of items
// that were yielded. When the same page comes again, a scan that resumes leaves these items out.
//
// A page of elements is read by one script that also returns the run_id. Two commands would not do: the
// key can move between them, and another node would answer the second one.
package scan
