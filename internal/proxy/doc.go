// Package proxy holds connections to a back end that many clients share.
//
// An [Upstream] is one multiplexed connection. Send appends a client's commands, byte for byte, to
// one buffer, and a first-in-first-out queue remembers the [ReplyHandler] of each. Flush lets other
// goroutines append too, and then writes all of it in one system call. One goroutine reads the
// replies, finds where each ends, and hands it to the head of the queue. Nothing is encoded anew. The
// more clients there are, the fewer system calls each command costs.
//
// A [Dedicated] is a connection for one client alone. It is for commands that leave state in a
// connection or occupy it: transactions, subscriptions, blocking commands, MONITOR. It tells replies
// from messages that come unasked.
//
// A [Pool] is several servers, or a cluster. An [Exclusive] is a connection that a client borrows from
// it.
//
// # Promises
//
//   - Each reply carries the tag that its ReplyHandler chose. So the handler can put it in order with
//     replies from elsewhere.
//   - A script that the server doesn't know is sent again. It is answered after the commands behind it;
//     all other replies of one Upstream arrive in the order of sending.
//   - When the connection is lost, every command in flight gets one error, which says whether the
//     command may have run.
//   - A write whose connection was lost is never sent again. With [PoolOptions].Patience commands that only
//     read are, once, in place of the error.
//   - While there is no connection, [Upstream.Send] fails and does not wait for one. Its error has the
//     reason.
//   - Pending bytes are bounded: Send waits while the back end doesn't take what was sent before.
package proxy
