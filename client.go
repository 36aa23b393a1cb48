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
	// Prefix begins every key, as in "rd:{orders:42}:lock". Give different prefixes to applications that
	// share a server. It must not contain braces. Defaults to "rd".
	Prefix string

	// DownAfter is how long a server may be silent before the Client considers it down. Then the calls
	// under way end with an error that matches [ErrUnavailable], and later calls fail with it at once,
	// until the server answers again. The Client asks it by PING for as long as calls come, and for ten
	// times DownAfter after that; the next call then waits for another PING.
	//
	// A server is silent when it refuses connections or loads its data, or when calls are under way and
	// none gets a reply. A slow call is no silence: before the Client considers a server down, it sends a
	// PING on another connection. Blocking commands wait as long as the server answers PINGs. The Client
	// watches each primary of a cluster by itself.
	//
	// Make DownAfter longer to outlast a failover or a restart. Make it longer on a link whose round trip
	// takes more than a tenth of it, because opening a connection takes several round trips. Defaults to a
	// second. Below 0 the Client considers no server down, and calls end with their contexts or when the
	// Conn gives up. It has no effect on a Conn that is [InProcess].
	DownAfter time.Duration

	// Observer sees the calls of the Client and the events of its primitives. Defaults to none.
	Observer Observer
}

// A Client is the base that all primitives share on one [Conn]. It names keys, merges concurrent calls
// into pipelines, and has one subscription for wake-ups. Make one Client per server or cluster and pass it
// to every primitive. All methods may be called by many goroutines at once.
type Client struct {
	conn     Conn
	topology Topology // nil when conn stands for one server
	prefix   string
	id       string // 128 random bits, hexadecimal: names this client's inbox
	observer Observer

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

// settle sets the defaults and returns the faults of the options.
func (o *Options) settle() error {
	if o.Prefix == "" {
		o.Prefix = "rd"
	}
	if o.DownAfter == 0 {
		o.DownAfter = defaultDownAfter
	}
	return o.Validate()
}

// Validate returns all faults of the options, as [New] and [Open] do, without a server.
func (o Options) Validate() error {
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
	c := &Client{conn: conn, prefix: opts.Prefix, id: randid.Hex(16), observer: opts.Observer, combine: true}
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

// Do runs one command as [Conn.Do] does. The Client merges the calls of several goroutines into one
// pipeline.
func (c *Client) Do(ctx context.Context, cmd Cmd) Reply {
	if c.observer.OnCall == nil {
		return c.do(ctx, &cmd)
	}
	node := ""
	if c.topology != nil {
		node = c.combinerFor(&cmd).health.node
	}
	ctx, end := c.begin(ctx, []Cmd{cmd}, node)
	r := c.do(ctx, &cmd)
	end(r.Err)
	return r
}

// do is Do without the Observer.
func (c *Client) do(ctx context.Context, cmd *Cmd) Reply {
	if c.closed.Load() {
		return Reply{Err: ErrClosed}
	}
	if err := ctx.Err(); err != nil {
		return Reply{Err: err}
	}
	if c.downAfter == 0 && !c.combine {
		return c.conn.Do(ctx, *cmd)
	}
	b := c.combinerFor(cmd)
	if c.downAfter > 0 && patient(ctx) {
		r := c.conn.Do(ctx, *cmd)
		if answered(r) {
			b.health.heard()
		}
		return r
	}
	if !c.combine || cmd.Flags&Blocking != 0 {
		return b.health.do(ctx, *cmd)
	}
	return b.do(ctx, *cmd)
}

// Pipeline runs commands as [Conn.Pipeline] does.
func (c *Client) Pipeline(ctx context.Context, cmds []Cmd) []Reply {
	if c.observer.OnCall == nil {
		return c.pipeline(ctx, cmds)
	}
	ctx, end := c.begin(ctx, cmds, "")
	replies := c.pipeline(ctx, cmds)
	end(firstError(replies))
	return replies
}

// pipeline is Pipeline without the Observer.
func (c *Client) pipeline(ctx context.Context, cmds []Cmd) []Reply {
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

// pipelines is pipeline for a cluster: one pipeline per node, so that a node that is down fails only its
// own commands.
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

// combinerFor returns the combiner of the node that owns cmd's keys, so that a slow node of a cluster
// delays only its own callers.
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

// combinerAt returns the combiner of the node that owns key, if key is not empty and the node is known.
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

// Node returns the name of the primary of a cluster that owns key now; it is empty elsewhere. Group work
// on many keys by it, so that a dead node delays only its own keys.
func (c *Client) Node(key string) string {
	if c.topology == nil {
		return ""
	}
	return c.topology.Node(key)
}

// Primaries returns a Conn for each primary of a cluster, by a fresh look at its topology. Without a
// cluster it returns the one Conn of the Client. Commands on these Conns are not merged with other
// commands and follow no redirects. Use them to scan all keys of a deployment.
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

// Key returns the key "<prefix>:{<name>}:<part>". The braces are the cluster's hash tag: all keys of one
// name share a slot. A name is 1 to [MaxName] bytes, of any value, and must not begin with '}', which
// would empty the tag. The error for any other name matches [ErrInvalidName].
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

// Go runs f on a goroutine that [Client.Close] waits for. Primitives use it to clean up on the server
// after a caller has gone. f must end by itself within seconds.
func (c *Client) Go(f func()) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.ending {
		go f() // too late to be waited for
		return
	}
	c.background.Go(f)
}

// Close waits for the clean-up of the primitives, a few seconds at most, ends the subscription, and fails
// later calls with [ErrClosed]. It closes a Conn that [Open] made, and no other. It releases nothing that
// is held: a lock lasts until it is released or its lease ends. Close may be called more than once.
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
