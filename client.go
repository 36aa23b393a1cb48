package redoubt

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// Options configure a [Client]. The zero value is ready to use.
type Options struct {
	// Prefix begins every key, as in "rd:{orders:42}:lock". Give two
	// applications that share a server different prefixes. It must not
	// contain braces. Defaults to "rd".
	Prefix string
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

	combine bool
	single  *combiner // used when topology is nil
	nodes   sync.Map  // node name → *combiner

	inbox      inbox
	shared     sync.Map
	closed     atomic.Bool
	background sync.WaitGroup
	mu         sync.RWMutex
	ending     bool // guarded by mu; background doesn't grow any more
}

// New returns a Client that runs its commands on conn. It sends nothing.
func New(conn Conn, opts Options) (*Client, error) {
	if opts.Prefix == "" {
		opts.Prefix = "rd"
	}
	var errs []error
	if conn == nil {
		errs = append(errs, errors.New("redoubt: conn is nil"))
	}
	if strings.ContainsAny(opts.Prefix, "{}") {
		errs = append(errs, fmt.Errorf("redoubt: prefix %q contains a brace, which would break the cluster hash tag", opts.Prefix))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	c := &Client{conn: conn, prefix: opts.Prefix, id: hex.EncodeToString(id[:]), combine: true}
	c.single = newCombiner(conn)
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
	if !c.combine || cmd.Flags&Blocking != 0 {
		return c.conn.Do(ctx, cmd)
	}
	return c.combinerFor(cmd).do(ctx, cmd)
}

// Pipeline runs commands as [Conn.Pipeline] does.
func (c *Client) Pipeline(ctx context.Context, cmds []Cmd) []Reply {
	if c.closed.Load() {
		replies := make([]Reply, len(cmds))
		for i := range replies {
			replies[i].Err = ErrClosed
		}
		return replies
	}
	return c.conn.Pipeline(ctx, cmds)
}

// combinerFor returns the combiner of the node that owns cmd's keys, so that
// a slow node of a cluster holds up only its own callers.
func (c *Client) combinerFor(cmd Cmd) *combiner {
	if c.topology == nil || len(cmd.Keys) == 0 {
		return c.single
	}
	node := c.topology.Node(cmd.Keys[0])
	if node == "" {
		return c.single
	}
	if v, ok := c.nodes.Load(node); ok {
		return v.(*combiner)
	}
	v, _ := c.nodes.LoadOrStore(node, newCombiner(c.conn))
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
		return []Conn{c.conn}, nil
	}
	return c.topology.Primaries(ctx)
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
// with [ErrClosed]. It does not close the Conn, which belongs to whoever made
// it, and gives back nothing that is held: a lock lasts until it is released or
// its lease ends. Close may be called more than once.
func (c *Client) Close() error {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	c.background.Wait()
	if !c.closed.Swap(true) {
		c.inbox.close()
	}
	return nil
}
