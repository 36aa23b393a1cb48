// Package resp reads and writes RESP, the wire protocol of Redis, in versions
// 2 and 3. It imports nothing outside the standard library.
//
// It is for programs between clients and servers. Most bytes only pass through
// such a program. So the package finds boundaries first and builds values only
// on request:
//
//   - [CommandScanner] finds the end of one command in a buffer and gives its
//     arguments as slices of that buffer.
//   - [ReplyScanner] finds the end of one reply of any type, nested or
//     streamed, without building it.
//   - [Parse] builds the value of a complete reply.
//   - The Append functions write commands and replies to the end of a slice.
//
// Both scanners keep their place: when a buffer ends in the middle of a
// message, the next call resumes there. So a large message that arrives in many
// pieces is scanned once. A warm scanner doesn't allocate. No input makes one
// panic. Both bound the depth and the counts that they accept.
//
// The protocol is described at
// https://redis.io/docs/latest/develop/reference/protocol-spec/.
package resp
