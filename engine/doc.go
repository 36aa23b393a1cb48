// Package engine is a Redis-compatible data store that lives inside the
// process: no socket, no server to install, and commands on independent keys
// run on all cores.
//
//	e, err := engine.New(engine.Options{})
//	s := e.Session()
//	reply, wait := s.Do(nil, [][]byte{[]byte("SET"), []byte("k"), []byte("v")})
//
// Replies are the bytes that Redis 7.0 would send, in the protocol of the
// session, so that a server can put them on the wire unchanged. The commands
// on the time to live of hash fields are those of Redis 8.0.
//
// The keyspace is divided by cluster slot into shards with a lock each. A
// command locks the shards of its keys in ascending order, a transaction the
// union of its commands', so that no command sees half of another.
//
// Streams, ACLs, replication and modules are left out: their commands answer
// an error.
package engine
