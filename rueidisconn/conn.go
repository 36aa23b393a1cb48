package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
)

// ErrUnsupportedClient is matched by [Wrap]'s error for a client that can't carry coordination.
var ErrUnsupportedClient = errors.New("rueidisconn: unsupported client")

var (
	_ redoubt.Conn       = (*Conn)(nil)
	_ redoubt.Subscriber = (*Conn)(nil)
	_ redoubt.Topology   = (*Conn)(nil)
	_ redoubt.Pipeliner  = (*Conn)(nil)
)

// A Conn is a [redoubt.Conn] over a rueidis client. All methods may be called by many goroutines at once.
type Conn struct {
	client rueidis.Client
	slots  *slots // nil elsewhere than on a cluster
	loads  conn.Loads[loadKey]
	hubs   conn.Hubs
	// asks is set once the client has asked the context of a command: see gate. Until then each failed command
	// counts as sent, because a wrapped client may hide the context.
	asks atomic.Bool
}

// Wrap returns a Conn over client, which rueidis.NewClient made: for one server, for a Sentinel group or
// for a cluster. Every option of the client is fine but these: ConnLifetime must be 0; a client with ReplicaOnly only reaches
// servers that refuse to write, and a SendToReplicas must not send a command of Redoubt to a replica. Wrap
// sends nothing. A nil client gives an error that matches [ErrUnsupportedClient].
//
// The client stays its owner's: the Conn never closes it, and works until the owner does. Blocking commands
// and subscriptions use connections of the client's pool for these.
func Wrap(client rueidis.Client) (*Conn, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: it is nil", ErrUnsupportedClient)
	}
	c := newConn(client)
	if client.Mode() == rueidis.ClientModeCluster {
		c.slots = &slots{client: client}
	}
	return c, nil
}

func newConn(client rueidis.Client) *Conn {
	c := &Conn{client: client}
	c.hubs.Package, c.hubs.Client = "rueidisconn", hubClient{c}
	return c
}

// Do runs one command: see [redoubt.Conn].
func (c *Conn) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	f := newFlight(1)
	f.items[0].init(cmd)
	c.fly(ctx, f)
	return f.items[0].reply
}

// Pipeline runs commands in one round trip for each node: see [redoubt.Conn]. Commands flagged Blocking run
// at the same time on connections of their own.
func (c *Conn) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cmds))
	f := newFlight(0)
	f.items = make([]item, 0, len(cmds))
	var places []int // of the items in replies
	blocking := make(chan struct{})
	waiting := 0
	for i := range cmds {
		if cmds[i].Flags&redoubt.Blocking != 0 {
			waiting++
			go func() {
				replies[i] = c.Do(ctx, cmds[i])
				blocking <- struct{}{}
			}()
			continue
		}
		f.items = append(f.items, item{})
		f.items[len(f.items)-1].init(cmds[i])
		places = append(places, i)
	}
	if len(f.items) > 0 {
		c.fly(ctx, f)
	}
	for i, place := range places {
		replies[place] = f.items[i].reply
	}
	for range waiting {
		<-blocking // Do returns when ctx ends
	}
	return replies
}

// fly gives every item of f a reply, at the latest when ctx ends.
func (c *Conn) fly(ctx context.Context, f *flight) {
	if err := conn.Ended(ctx); err != nil {
		f.leave(err)
		return
	}
	if ctx.Done() == nil {
		c.run(ctx, f)
		return
	}
	// rueidis connects without looking at the context, so the caller must be able to leave it behind.
	done := make(chan struct{})
	go func() {
		c.run(ctx, f)
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		f.leave(ctx.Err())
	}
}

// Pipelines reports true: rueidis merges the commands of concurrent callers.
func (c *Conn) Pipelines() bool { return true }
