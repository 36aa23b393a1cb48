package server

import (
	"context"
	"net"
	"time"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A server stands in front of one back end or of a pool. Only the types below know which.
//
// The Server has a target, and each session has a route to it:
//
//	target         route of a session
//	backendTarget  single: connections to one server
//	               inprocess: an engine in this process
//	poolTarget     pooled: several servers, or a cluster
//
// A session calls its carrier, which is its route until the client needs its own connection.
// Then it is a dedicated, until RESET. In front of a pool the carrier is always the route.

// A target is what a Server stands in front of.
type target interface {
	// open returns the route of a new session. conn is the client's connection.
	open(c *session, conn net.Conn) route
	// addHandlers adds the handlers of commands that only this target has.
	addHandlers(add func(h handler, names ...string))
	// name is how errors call the target.
	name() string
	// database is the one that clients begin with.
	database() int
	// upstream returns a shared connection for questions of the Server's own.
	upstream(p resp.Protocol) (*proxy.Upstream, error)
	// polled reports whether pollers serve the clients. remote reports whether the commands leave
	// the process: then other goroutines write the replies.
	polled() bool
	remote() bool
	// usersBehind reports whether clients may log in as users of the back end.
	usersBehind() bool
	// dirty returns which of some clients watch keys that have changed, as far as it is known.
	dirty(ctx context.Context, among []*session) map[*session]bool
	// stats returns the counters of shared connections that the target has itself.
	stats() []UpstreamStats
	// tick is called every second, and when the target has asked for it.
	tick()
	// disconnect ends all connections. close follows the end of the last session.
	disconnect()
	close()
}

// A carrier takes the commands of one client to where they run. Their replies come to the
// session's output, by the tags that the session gives. Only the session's goroutine calls it.
type carrier interface {
	// dispatch carries one command; raw is args as they lie in the session's buffer. A command
	// that needs nothing else joins the span, and leaves with the others in it. All others go
	// to [session.special].
	dispatch(args [][]byte, raw []byte)
	// run runs a command that session.special has let in. h is nil for a command that the
	// server does nothing about itself.
	run(h *handler, args [][]byte, raw []byte)
	// forward carries one command. change, unless it is nil, makes the client's reply.
	forward(raw []byte, change translate)
	// queue is forward for a command that the transaction is to queue. change makes its element
	// of EXEC's reply. raw is nil for an answer made here: it is not sent, and change gets nil.
	queue(raw []byte, change translate)
	// extends reports whether Redoubt runs an extension command itself. If not, the command has
	// been carried or refused.
	extends(h *handler, args [][]byte, raw []byte) bool
	// script carries the script of an extension command, or queues it.
	script(h *handler, args [][]byte, p command.Plan)
	// carries reports whether it has carried PING or ECHO. If not, the session answers.
	carries(h *handler, raw []byte) bool
	// client runs a subcommand of CLIENT that the session doesn't know. It reports false if
	// there is none of that name.
	client(sub string, args [][]byte, raw []byte) bool
	// hello carries a change of the protocol if a connection of the client's own has to know.
	// answered: the client has its reply; ok: the connection speaks the protocol.
	hello(p resp.Protocol, who []any) (answered, ok bool)
	// setProtocol changes the protocol of replies. No command is in flight.
	setProtocol(p resp.Protocol) error
	// abandon answers EXEC with an error, and ends the transaction and the watch of keys.
	abandon(text string)
	// reset ends all state, and makes the route the carrier again.
	reset()
	// cannotWait says why a command that waits on connections of Redoubt's own would not see
	// what the client sees. It is empty if it would.
	cannotWait() string
	// occupies reports whether what the client waits for holds its own connection.
	occupies() bool
	// watchesKeys reports whether keys are watched for the client, as far as it is known.
	watchesKeys() bool
	// hangUp ends what the client waits for on a server, because this server ends or the client is gone. It gives up at
	// the deadline.
	hangUp(deadline time.Time)
	// sendSpan sends the span. flush does so too, and lets everything leave for the wire.
	sendSpan()
	flush()
	// endTurn is called before the buffer, in which the span may lie, gets another use. It
	// returns how many commands have replies that still wait for flush.
	endTurn() int
}

// A route is the carrier that a session begins with. It has more methods for the
// poller and for other goroutines.
type route interface {
	carrier

	// gather adds the upstreams that are to be flushed to others, which are the caller's to
	// flush from now on. ready is false if the replies have to wait for the disk.
	gather(to []*proxy.Upstream) (all []*proxy.Upstream, ready bool)
	// close ends all connections of the client, when the session ends.
	close()
	// forget drops what still refers to the session's buffer.
	forget()

	// kill cuts the client's connections off. Any goroutine may call it.
	kill()
	// holdings are what the client has on servers. Any goroutine may call it.
	holdings() holdings
	// unblock ends what the client waits for on a server, and reports whether it waited. Any
	// goroutine may call it.
	unblock(ctx context.Context, how proxy.Unblocking) (bool, error)
}

// holdings are what a client has on servers, as other goroutines see it.
type holdings struct {
	subscriptions [proxy.Shards + 1]int64 // by family
	inbox         bool                    // messages of others' tracking may come
	monitors      bool                    // lines of MONITOR may come
	tracked       *tracked                // nil: CLIENT TRACKING is off
}

// subscribed reports whether Redis would count the client among those in pub/sub.
func (h holdings) subscribed() bool {
	for _, n := range h.subscriptions {
		if n > 0 {
			return true
		}
	}
	return false
}

// listening reports whether messages may come unasked.
func (h holdings) listening() bool {
	return h.subscribed() || h.inbox || h.monitors || h.tracked != nil
}
