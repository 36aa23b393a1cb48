// Package scan goes over all keys of a server or a cluster, and over the elements of
// big hashes, sets and sorted sets: in small steps that hold nobody up, on all nodes at
// the same time, from where an earlier scan ended.
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
//   - [Scanner.Hash], [Scanner.Set] and [Scanner.SortedSet] go over what is in one key.
//   - [Iterator.Pages] gives many at once.
//   - [Scanner.Delete] and [Scanner.Expire] work on what an iterator gives;
//     [Scanner.Report] finds the biggest keys and the heaviest prefixes in it.
//   - [Iterator.Token] is where a scan is, as a text that outlives the process.
//
// # How it works
//
// SCAN goes over a server's hash table with a cursor that counts with its bits
// reversed: whatever is in the table from the first call to the last is returned,
// though the table grows and shrinks, but perhaps more than once. This holds on one
// server process. Another one, a replica that was promoted or the same server after a
// restart, has another hash function, and the cursor means nothing to it. So each page
// comes with the server's run_id, and where that is another than before the node is
// gone over from the beginning.
//
// On a cluster a key can go, with its slot, from a node that is yet to return it to one
// that has been past its place. So a slot counts as done when it was at one node from
// the beginning to the end of that node's scan. One that is on its way from one node to
// another at the end is gone over on the other from then on; one that belongs to another
// node by then, or whose node has been replaced, is gone over there. A scan of a cluster
// at rest costs one CLUSTER NODES at each node in the beginning and the end.
//
// What SCAN gives twice is removed by hashes of 128 bits of what was given last. They are
// not in the token. A token of a loop that was left within a page has the number of items
// given, and a hash of the page: when the same page comes again, these are left out.
//
// Behind a pool of redoubt serve the servers are gone over as one, whose run_id stands for
// all of them. A pool in front of a cluster has none, since it doesn't know which slots are
// on their way: there a scan of keys is refused. (TestPool, TestClusterPool)
//
// A page of elements is one script, which tells the run_id with them: a key goes from
// node to node by itself, so that a second command could be answered by another node.
//
// # What is promised
//
//   - What is there from the beginning to the end is given: while others are added and
//     removed and the tables grow and shrink (TestEveryKeyIsGiven, TestElements), while
//     slots move from node to node (TestCluster/moving_slots, TestCluster/moving_key),
//     and when a server is restarted (TestRestartedServer).
//   - Nothing is given twice in one Iterator as long as fewer than [Options.Remember]
//     others lie between. (TestNothingIsGivenTwice)
//   - By a token everything that is left is given, also when slots have moved since, a
//     node has been replaced or its server restarted. (TestResume, TestResumeElements,
//     TestCluster/resume_after_a_move, TestRestartedServer, TestChangedPageIsGivenWhole)
//   - Where none of this has happened, a token gives at most a page of each node again,
//     and nothing as long as the servers' tables don't change. (TestResume,
//     TestResumeExactly)
//   - A token of another query, of another cluster, or that is cut off, is refused.
//     (TestBadTokens)
//   - Delete and Expire reach every key that their iterator gives, also when they are
//     called again after an error, and work on the nodes of a cluster at the same time;
//     a dry run changes nothing. (TestDeleteAndExpire, TestCluster/parallel)
//   - A Report has the biggest of the keys that it measured, in bounded memory, and says
//     by how much a prefix may be overestimated. (TestReport, TestHeat, TestHeavy)
//   - A loop ends when its ctx does, leaves no goroutine behind, and can be gone on
//     with. (TestContextEnds, TestLoopLeft)
//
// # What is not promised
//
// What is added or removed meanwhile is given or not. Order: there is none. A value, a
// type or a score is that of some moment. A token of one server doesn't tell its
// databases apart. On a cluster a slot that goes to another node and comes back, both
// while its node is gone over, looks as if it had stayed, and its keys may be missed; so
// may those of slots whose move is given up with keys on both sides. The user needs the
// right to INFO, and on a cluster to CLUSTER NODES.
package scan
