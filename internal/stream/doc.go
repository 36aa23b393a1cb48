// Package stream is the data structure of a stream with its consumer groups, as Redis 7.0 has it. It
// knows no commands and no clients.
//
// The entries lie in nodes, each a listpack in the very form that Redis uses: fields that repeat are
// stored once, numbers are stored as numbers, and a node ends where it ends in Redis. So approximate
// trimming cuts where Redis cuts, and DUMP copies the nodes.
//
// A [Stream] knows its size in memory at any time, see [Stream.Bytes]. It is not safe for concurrent
// use. Slices that a stream returns are valid until the next call, unless a comment says otherwise.
// Arguments are copied.
package stream
