package redoubt

import "context"

// A Conn is the narrow interface to a server: one Redis or Valkey, a cluster, or the embedded engine.
// Package goredis makes one from a go-redis client, rueidisconn from a rueidis client, valkeyconn from a
// valkey-go client. A Conn has no Close: the owner of the client underneath closes it.
//
// All methods may be called by many goroutines at once. Package redoubttest holds every implementation to
// these rules:
//
//   - A call returns when its ctx ends, whatever the client underneath does.
//   - A command is sent again only when the server is known not to have run it (LOADING, READONLY,
//     TRYAGAIN, MOVED, NOSCRIPT, a connection that could not be opened), or when it is flagged ReadOnly
//     or Idempotent.
//   - The error of a command that may have run and whose reply was lost matches [ErrUnknownOutcome].
//   - A missing script is loaded, and only the command that missed it is sent again, also inside a
//     pipeline.
//   - The bytes of keys and arguments are never reused or changed.
type Conn interface {
	// Do runs one command: one round trip.
	Do(ctx context.Context, c Cmd) Reply

	// Pipeline runs commands in one round trip per server and returns one Reply per command, in order. It
	// is no transaction: commands of other clients may run in between, and each command fails or succeeds
	// by itself.
	Pipeline(ctx context.Context, cs []Cmd) []Reply
}

// A Cmd is one command for a server. It names its keys apart from its other
// arguments, so that any Conn can tell where it belongs.
type Cmd struct {
	// Name is a command whose keys come first, like "HSET", or one with a
	// subcommand, like "SCRIPT EXISTS". It is empty when Script is set.
	Name string
	// Script is run by its digest, with Keys and Args as its KEYS and ARGV.
	Script *Script
	// Keys of a command must share a hash slot on a cluster.
	Keys []string
	// At is for a command without keys, like WAIT. The command goes to the primary that owns this key; the
	// key is not sent. Empty: any primary.
	At string
	// Args follow the keys. They are binary-safe.
	Args []string
	// Flags say how the command may be sent. Zero means once, never again.
	Flags Flags
}

// Flags say how a command may be sent.
type Flags uint8

const (
	// ReadOnly marks a command that changes nothing, so that it may be sent
	// again after a lost reply.
	ReadOnly Flags = 1 << iota
	// Idempotent marks a command that has the same effect and gives the same
	// answer when it is run twice, so that it may be sent again after a lost
	// reply.
	Idempotent
	// Blocking marks a command that holds its connection until something
	// happens, like BLPOP. It never shares a pipeline.
	Blocking
)

// Resendable reports whether a command with these flags may be sent again
// after a reply was lost.
func (f Flags) Resendable() bool { return f&(ReadOnly|Idempotent) != 0 }

// A Subscriber is a Conn that can receive published messages. Without it waiters are not woken and wait
// until the lease ends that they saw.
type Subscriber interface {
	// Subscribe listens on channel until the returned stop is called. It
	// returns once the server has confirmed the subscription, or when ctx
	// ends. Channels share connections: one for a server, not one a channel.
	// With sharded, a cluster's sharded pub/sub is used (Redis 7 or newer).
	//
	// on is called from one goroutine at a time and must not block. It gets
	// every message, and lost = true after a connection was lost and the
	// subscription was confirmed anew: messages between were missed.
	Subscribe(ctx context.Context, channel string, sharded bool, on func(payload string, lost bool)) (stop func(), err error)
}

// A Topology is a Conn that knows which server owns a key. A Conn without it
// stands for one server.
type Topology interface {
	// Node names the primary that owns key now, as host:port. It is empty
	// when the Conn stands for one server, or when the owner is not known.
	Node(key string) string
	// Primaries returns a Conn for each primary.
	Primaries(ctx context.Context) ([]Conn, error)
}

// A Pipeliner is a Conn that says whether its client already merges the commands of concurrent callers
// into pipelines, as rueidis does. A [Client] merges them for every other Conn.
type Pipeliner interface {
	Pipelines() bool
}

// InProcess is a Conn whose server is in this process, like the embedded engine. The Client never
// considers it down.
type InProcess interface {
	InProcess()
}

// An EachPipeliner is a Conn that returns each reply of a pipeline as soon as it is final. A [Client]
// merges the commands of independent callers. With an EachPipeliner no caller waits while the command of
// another caller is sent again.
type EachPipeliner interface {
	// PipelineEach runs commands as Pipeline does, none of them Blocking, and calls each once per command,
	// on one goroutine at a time. It returns after the last call, and may run on for a while after ctx has
	// ended.
	PipelineEach(ctx context.Context, cs []Cmd, each func(i int, r Reply))
}
