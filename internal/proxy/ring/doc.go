// Package ring chooses the server of a key as twemproxy (nutcracker 0.5) does. So either can stand in
// front of the same servers and find every key where the other left it.
//
//	r, err := ring.New(ring.Options{Servers: servers, Distribution: ring.Ketama})
//	…
//	server := servers[r.Pick(key)]
//
// A [Ring] has servers with weights, a [Hash] of the key and a [Distribution] of the hashes over the
// servers. It is immutable: when a server leaves or comes back, make another one. Making a ring of 25
// servers takes about 2 ms. A choice takes less than 0.1 µs and allocates nothing.
//
// # Promises
//
// The following holds to the bit:
//
//   - A ring chooses the server that twemproxy chooses.
//   - The twelve hashes equal twemproxy's, with the quirks of its C code: five of them treat bytes of
//     128 and above as negative, the CRC-16 yields 32 bits, and the CRC-32 yields 15.
//   - The points of a ketama ring equal twemproxy's. Their number is computed in float32, so 25 equal
//     servers have 156 points each, not 160.
//   - Modula orders the servers as twemproxy does: by the length of their names, then by the names.
//   - Only the part of a key between the two bytes of the tag counts, unless that part is empty.
//   - An empty key has hash 0.
//
// Two Rings with the same [Ring.Digest] choose alike, in any process.
package ring
