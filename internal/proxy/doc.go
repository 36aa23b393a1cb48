// Package proxy holds connections to a back end that many clients share.
//
// An [Upstream] is one multiplexed connection. Every client's commands are
// appended to one buffer, as the bytes that the client sent, and a
// first-in-first-out queue remembers whose they are. Whoever appended first
// yields once, so that every other client that is ready appends too, and then
// writes all of it in one system call. One goroutine reads the replies, finds
// where each ends, and hands it to the head of the queue. Nothing is encoded
// anew, and the more clients there are, the fewer system calls each command
// costs.
//
// A [Dedicated] is the same machinery for one client alone, for what leaves
// state in a connection or occupies it: transactions, subscriptions, blocking
// commands, MONITOR. It also tells replies from messages that come unasked. In front
// of a [Pool] it is borrowed for as long as it is needed, and kept for the next: an
// [Exclusive].
//
// # What is promised
//
//   - Replies to one [ReplyHandler] carry the tag that it chose, so that it can put
//     them in order with replies from elsewhere. Over one Upstream they arrive
//     in the order of sending, but for a script that was missing: it is sent
//     again, and answered after what was sent behind it.
//   - When the connection is lost, every command in flight gets one error in
//     its place, which says whether the command may have run. None is ever
//     sent twice.
//   - While there is no connection, [Upstream.Send] fails at once with the
//     reason.
//   - Pending bytes are bounded: Send waits while the back end does not take
//     what was sent before.
package proxy
