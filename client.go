package redoubt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/randid"
)

// Options configure a [Client]. The zero value is ready to use.
type Options struct {
	// Prefix begins every key, as in "rd:{orders:42}:lock". Give two
	// applications that share a server different prefixes. It must not
	// contain braces. Defaults to "rd".
	Prefix string

	// DownAfter is how long a server may be silent before it is taken to be down.
	// Then the calls that are under way end with an error that matches
	// [ErrUnavailable], and later calls get one at once, until the server answers
	// again. It is asked by PING for as long as calls come, and for ten times
	// DownAfter after that; the next call then waits until it has been asked again.
	//
	// A server is silent when it refuses connections, or loads its data, or when
	// calls are under way and none gets a reply. A slow call doesn't make it so: the
	// server is asked by PING, on another connection, before it is taken to be down.
	// Blocking commands wait as long as it answers. Each primary of a cluster is
	// watched by itself.
	//
	// To outlast a failover or a restart, make it longer; and on a link whose round
	// trip takes more than a tenth of it, because a new connection takes several.
	// Defaults to a second; with less than 0 no server is taken to be down, and calls
	// end with their contexts or when the Conn gives up. On a Conn that is [InProcess]
	// it has no effect.
	DownAfter time.Duration
}

// A Client is what the primitives of this module share on one [Conn]: the
// naming of keys, the merging of concurrent calls into pipelines, one
// subscription for wake-ups. Make one for each server or cluster that the
// program uses and pass it to every primitive. All methods may be called by
// many goroutines at once.
type Client struct {
	conn     Conn
	topology Topology // nil when conn stands for one server
	prefix   string
	id       string // 128 random bits, hexadecimal: names this client's inbox

	downAfter time.Duration // 0: never
	combine   bool
	single    *combiner // used when topology is nil
	nodes     sync.Map  // node name → *combiner

	open  context.Context    //nolint:containedctx // ends when Close begins
	close context.CancelFunc // ends open

	inbox      inbox
	shared     sync.Map
	closeConn  func() error // nil: the Conn is its owner's
	closed     atomic.Bool
	background sync.WaitGroup
	mu         sync.RWMutex
	ending     bool // guarded by mu; background doesn't grow any more
}

// settle sets the defaults, and returns what is wrong.
func (o *Options) settle() error {
	if o.Prefix == "" {
		o.Prefix = "rd"
	}
	if o.DownAfter == 0 {
		o.DownAfter = defaultDownAfter
	}
	var errs []error
	if d := o.DownAfter; d > 0 && d < minDownAfter {
		errs = append(errs, fmt.Errorf("redoubt: DownAfter is %v; want at least %v, 0 for the default, or less than 0 for never", d, minDownAfter))
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		errs = append(errs, fmt.Errorf("redoubt: prefix %q contains a brace, which would break the cluster hash tag", o.Prefix))
	}
	return errors.Join(errs...)
}

// New returns a Client that runs its commands on conn. It sends nothing.
func New(conn Conn, opts Options) (*Client, error) {
	err := opts.settle()
	if conn == nil {
		err = errors.Join(errors.New("redoubt: conn is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, prefix: opts.Prefix, id: randid.Hex(16), combine: true}
	if _, here := conn.(InProcess); !here {
		c.downAfter = max(opts.DownAfter, 0)
	}
	c.open, c.close = context.WithCancel(context.Background())
	c.single = newCombiner(newHealth(c, conn, ""))
	c.topology, _ = conn.(Topology)
	if p, ok := conn.(Pipeliner); ok && p.Pipelines() {
		c.combine = false
	}
	c.inbox.client = c
	c.inbox.ctx, c.inbox.end = context.WithCancel(context.Background())
	return c, nil
}

// Do runs one command as [Conn.Do] does. Calls made at the same time leave
// together: see combiner.
func (c *Client) Do(ctx context.Context, cmd Cmd) Reply {
	if c.closed.Load() {
		return Reply{Err: ErrClosed}
	}
	if err := ctx.Err(); err != nil {
		return Reply{Err: err}
	}
	if c.downAfter == 0 && !c.combine {
		return c.conn.Do(ctx, cmd)
	}
	b := c.combinerFor(&cmd)
	if c.downAfter > 0 && patient(ctx) {
		r := c.conn.Do(ctx, cmd)
		if answered(r) {
			b.health.heard()
		}
		return r
	}
	if !c.combine || cmd.Flags&Blocking != 0 {
		return b.health.do(ctx, cmd)
	}
	return b.do(ctx, cmd)
}

// Pipeline runs commands as [Conn.Pipeline] does.
func (c *Client) Pipeline(ctx context.Context, cmds []Cmd) []Reply {
	switch {
	case c.closed.Load():
		return allFail(cmds, ErrClosed)
	case c.downAfter == 0 || patient(ctx):
		return c.conn.Pipeline(ctx, cmds)
	case c.topology == nil:
		return c.single.health.pipeline(ctx, cmds)
	}
	return c.pipelines(ctx, cmds)
}

// pipelines is Pipeline for a cluster: one pipeline for each node, so that a node that is
// down ends only its own.
func (c *Client) pipelines(ctx context.Context, cmds []Cmd) []Reply {
	parts := make(map[*health][]int) // the places of its commands
	for i := range cmds {
		h := c.combinerFor(&cmds[i]).health
		parts[h] = append(parts[h], i)
	}
	if len(parts) == 1 {
		return c.combinerFor(&cmds[0]).health.pipeline(ctx, cmds)
	}
	replies := make([]Reply, len(cmds))
	var wg sync.WaitGroup
	for h, places := range parts {
		wg.Go(func() {
			part := make([]Cmd, len(places))
			for i, place := range places {
				part[i] = cmds[place]
			}
			for i, r := range h.pipeline(ctx, part) {
				replies[places[i]] = r
			}
		})
	}
	wg.Wait()
	return replies
}

func allFail(cmds []Cmd, err error) []Reply {
	replies := make([]Reply, len(cmds))
	for i := range replies {
		replies[i].Err = err
	}
	return replies
}

// combinerFor returns the combiner of the node that owns cmd's keys, so that
// a slow node of a cluster holds up only its own callers.
func (c *Client) combinerFor(cmd *Cmd) *combiner {
	if c.topology == nil {
		return c.single
	}
	key := cmd.At
	if len(cmd.Keys) > 0 {
		key = cmd.Keys[0]
	}
	return c.combinerAt(key)
}

// combinerAt returns the combiner of the node that owns key, if it is not empty and
// that node is known.
func (c *Client) combinerAt(key string) *combiner {
	if c.topology == nil || key == "" {
		return c.single
	}
	node := c.topology.Node(key)
	if node == "" {
		return c.single
	}
	if v, ok := c.nodes.Load(node); ok {
		return v.(*combiner)
	}
	v, _ := c.nodes.LoadOrStore(node, newCombiner(newHealth(c, c.conn, node)))
	return v.(*combiner)
}

// Node names the primary that owns key now, on a cluster; it is empty
// elsewhere. Work for many keys is grouped by it, so that a dead node holds up
// only its own.
func (c *Client) Node(key string) string {
	if c.topology == nil {
		return ""
	}
	return c.topology.Node(key)
}

// Primaries returns a Conn for each primary of a cluster, after a fresh look at it,
// and elsewhere the one Conn of the Client. What is sent on them is not merged with
// the commands of others, and follows no redirects. It is for what goes over all
// keys of a deployment.
func (c *Client) Primaries(ctx context.Context) ([]Conn, error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	if c.topology == nil {
		return []Conn{bounded{c.single.health}}, nil
	}
	conns, err := c.topology.Primaries(ctx)
	for i, conn := range conns {
		conns[i] = bounded{newHealth(c, conn, "")}
	}
	return conns, err
}

// MaxName is the longest name of a lock, a limit or a queue, in bytes.
const MaxName = 512

// Key returns the key "<prefix>:{<name>}:<part>". The braces are the cluster's
// hash tag: all keys of one name share a slot. A name is 1 to [MaxName] bytes,
// any bytes, but must not begin with '}', which would empty the tag; another
// name gives an error that matches [ErrInvalidName].
func (c *Client) Key(name, part string) (string, error) {
	switch {
	case name == "":
		return "", fmt.Errorf("%w: it is empty; want 1 to %d bytes", ErrInvalidName, MaxName)
	case len(name) > MaxName:
		return "", fmt.Errorf("%w: it has %d bytes; want 1 to %d", ErrInvalidName, len(name), MaxName)
	case name[0] == '}':
		return "", fmt.Errorf("%w: %q begins with '}'", ErrInvalidName, name)
	}
	return c.prefix + ":{" + name + "}:" + part, nil
}

// Go runs f on a goroutine that [Client.Close] waits for. Primitives do on it
// what is left to do on the server after a caller has gone. f must end by
// itself, in seconds.
func (c *Client) Go(f func()) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.ending {
		go f() // too late to be waited for
		return
	}
	c.background.Go(f)
}

// Close waits for what the primitives still have to clean up on the server, a
// few seconds at most, ends the client's subscription and fails later calls
// with [ErrClosed]. It closes the Conn of [Open], and none other, and gives back nothing that is held: a lock lasts until it is released or
// its lease ends. Close may be called more than once.
func (c *Client) Close() error {
	c.close()
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	c.background.Wait()
	if c.closed.Swap(true) {
		return nil
	}
	c.inbox.close()
	if c.closeConn != nil {
		return c.closeConn()
	}
	return nil
}
