package goredis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
)

// ErrUnsupportedClient is matched by [Wrap]'s error for a client that can't
// carry coordination. A *redis.Ring is one while a shard is down, and after
// SetAddrs. An auto-pipelining client is one too: wrap the client it was made
// from, because a [redoubt.Client] makes pipelines by itself.
var ErrUnsupportedClient = errors.New("goredis: unsupported client")

var (
	_ redoubt.Conn       = (*Conn)(nil)
	_ redoubt.Subscriber = (*Conn)(nil)
	_ redoubt.Topology   = (*Conn)(nil)
	_ redoubt.Pipeliner  = (*Conn)(nil)

	_ redoubt.EachPipeliner = (*Conn)(nil)
)

// A Conn is a [redoubt.Conn] over a go-redis client. All methods may be called
// by many goroutines at once.
type Conn struct {
	single  *redis.Client        // nil on a cluster and on a Ring
	cluster *redis.ClusterClient // nil elsewhere
	ring    *ring                // nil elsewhere

	sentinel bool // single asks Sentinels where the master is

	loads     conn.Loads[loadKey]
	blockers  blockers
	hubs      conn.Hubs
	warm      warmth
	dedicated dedicated
	unmerged  atomic.Bool // the server doesn't take commands that are merged
}

// failoverAddr is the address in the options of a client by NewFailoverClient.
const failoverAddr = "FailoverClient"

// Wrap returns a Conn over rdb, which must be a *redis.Client, standalone or
// made by NewFailoverClient, a *redis.ClusterClient or a *redis.Ring. Another client gives an
// error that matches [ErrUnsupportedClient]. Wrap sends nothing.
//
// The client stays its owner's: the Conn never closes it, and works until the
// owner does. Blocking commands and subscriptions use connections outside its
// pool.
func Wrap(rdb redis.UniversalClient) (*Conn, error) {
	c := newConn()
	switch rdb := rdb.(type) {
	case *redis.Client:
		c.single = rdb
		c.sentinel = rdb != nil && rdb.Options().Addr == failoverAddr
	case *redis.ClusterClient:
		c.cluster = rdb
	case *redis.Ring:
		if rdb == nil {
			break
		}
		var err error
		if c.ring, err = newRing(rdb); err != nil {
			return nil, err
		}
	case *redis.AutoPipeliner:
		return nil, fmt.Errorf("%w: an AutoPipeliner merges commands by itself; wrap the client it was made from", ErrUnsupportedClient)
	case nil:
		return nil, fmt.Errorf("%w: it is nil", ErrUnsupportedClient)
	default:
		return nil, fmt.Errorf("%w: %T; want *redis.Client, *redis.ClusterClient or *redis.Ring", ErrUnsupportedClient, rdb)
	}
	if c.single == nil && c.cluster == nil && c.ring == nil {
		return nil, fmt.Errorf("%w: it is a nil %T", ErrUnsupportedClient, rdb)
	}
	return c, nil
}

func newConn() *Conn {
	c := new(Conn)
	c.hubs.Package, c.hubs.Client = "goredis", hubClient{c}
	return c
}

// Do runs one command: see [redoubt.Conn].
func (c *Conn) Do(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if c.ring != nil {
		return c.ring.do(ctx, cmd)
	}
	if err := ctx.Err(); err != nil {
		return redoubt.Reply{Err: err}
	}
	it := new(item)
	it.init(cmd)
	if cmd.Flags&redoubt.Blocking != 0 {
		return c.block(ctx, it)
	}
	if ctx.Done() == nil {
		c.run(ctx, it)
		return it.reply
	}
	v := c.tryDedicated(ctx, it)
	if v == finished {
		return it.reply
	}
	done := make(chan struct{})
	go func() {
		c.runOn(ctx, it, v)
		close(done)
	}()
	select {
	case <-done:
		return it.reply
	case <-ctx.Done():
		return it.leave(ctx.Err())
	}
}

// Pipeline runs commands in one round trip for each node: see [redoubt.Conn].
// Commands flagged Blocking run at the same time on connections of their own.
func (c *Conn) Pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	if c.ring != nil {
		return c.ring.pipeline(ctx, cmds)
	}
	if m, ok := c.merge(cmds); ok {
		return c.pipelineMerged(ctx, m, cmds)
	}
	return c.pipeline(ctx, cmds)
}

func (c *Conn) pipeline(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	replies := make([]redoubt.Reply, len(cmds))
	if err := ctx.Err(); err != nil {
		for i := range replies {
			replies[i].Err = err
		}
		return replies
	}
	items := make([]item, len(cmds))
	batch := make([]*item, 0, len(cmds))
	blocking := make(chan struct{})
	waiting := 0
	for i := range items {
		it := &items[i]
		it.init(cmds[i])
		if cmds[i].Flags&redoubt.Blocking == 0 {
			batch = append(batch, it)
			continue
		}
		waiting++
		go func() {
			replies[i] = c.block(ctx, it)
			blocking <- struct{}{}
		}()
	}
	if len(batch) > 0 {
		c.runBatch(ctx, batch)
	}
	for range waiting {
		<-blocking // block returns when ctx ends
	}
	for i := range items {
		if cmds[i].Flags&redoubt.Blocking == 0 {
			replies[i] = items[i].outcome(ctx)
		}
	}
	return replies
}

// PipelineEach is Pipeline for commands of several callers: see
// [redoubt.EachPipeliner].
func (c *Conn) PipelineEach(ctx context.Context, cmds []redoubt.Cmd, each func(i int, r redoubt.Reply)) {
	if c.ring != nil {
		c.ring.pipelineEach(ctx, cmds, each)
		return
	}
	if m, ok := c.merge(cmds); ok {
		c.eachMerged(ctx, m, cmds, each)
		return
	}
	c.eachOf(ctx, cmds, each)
}

func (c *Conn) eachOf(ctx context.Context, cmds []redoubt.Cmd, each func(i int, r redoubt.Reply)) {
	items := make([]item, len(cmds))
	batch := make([]*item, len(cmds))
	for i := range items {
		items[i].init(cmds[i])
		items[i].done = func(r redoubt.Reply) { each(i, r) }
		batch[i] = &items[i]
	}
	c.run(ctx, batch...)
}

// runBatch runs items and returns when all have replies or ctx ends.
func (c *Conn) runBatch(ctx context.Context, items []*item) {
	if ctx.Done() == nil {
		c.run(ctx, items...)
		return
	}
	done := make(chan struct{})
	go func() {
		c.run(ctx, items...)
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Pipelines reports false: go-redis sends each command by itself, so that a
// [redoubt.Client] gains by merging them.
func (c *Conn) Pipelines() bool { return false }
