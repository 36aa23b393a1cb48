// Package resp reads and writes RESP, the wire protocol of Redis, in versions
// 2 and 3. It imports nothing outside the standard library.
//
// It is made for programs that stand between clients and servers. Most bytes
// only pass through them, so the package finds boundaries first and builds
// values only on request:
//
//   - [CommandScanner] finds the end of one command in a buffer and gives its
//     arguments as slices of that buffer.
//   - [ReplyScanner] finds the end of one reply of any type, nested or
//     streamed, without building it.
//   - [Parse] builds the value of a complete reply.
//   - The Append functions write commands and replies to the end of a slice.
//
// Both scanners keep their place: when a buffer ends in the middle of a
// message, the next call goes on where the last one stopped, so that a large
// message that arrives in many pieces is looked at once. Neither allocates
// once it is warm, neither panics whatever the input, and both bound the depth
// and the counts that they accept.
//
// The protocol is described at
// https://redis.io/docs/latest/develop/reference/protocol-spec/.
package resp
