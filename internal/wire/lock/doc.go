// Package lock has the wire format that package lock and the commands LOCK.* and SEM.* share: the
// keys, the scripts, the commands that call them, and the readers of their replies. It checks no
// arguments: its callers do.
//
// A lock is one hash, "<prefix>:{<name>}:lock":
//
//	id             the acquisition that has the lock, or had it last: random
//	until          µs since 1970: until when; 0 once released
//	fence          the fencing token of that acquisition
//	label          for people
//	last           the acquisition that was released last
//	void           the acquisition that was given up last with an unknown outcome
//	forced         the token of the holder that lost the lock by force last
//	head, tail     places in the queue: of the last woken client, of the last waiting one
//	<place>        PUBLISH or SPUBLISH, a blank, and the channel of a waiting client
//	<that waiter>  its place
//
// Every step is one script, and only the server's TIME decides. A waiter queues in the same script
// that finds the lock held, and the release publishes a wake-up to the first one in the queue:
// nobody polls. When a waiter leaves the queue, the last one takes its place, so the queue has no
// gaps to search, and nobody falls back. Two minutes after the last lease on a name has ended,
// nothing is left of it.
package lock
