package goredis

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// send makes one attempt for all items, at once on every node concerned, and
// leaves its result in each item's err.
func (c *Conn) send(ctx context.Context, items []*item) {
	for _, it := range items {
		it.prepare(ctx)
	}
	switch {
	case c.single != nil:
		for _, it := range items {
			it.node = c.single
		}
		sendTo(ctx, c.single, items)
	case len(items) == 1:
		if c.route(ctx, items[0]) {
			c.sendGroup(ctx, group{items[0].node, items})
		}
	default:
		c.sendGroups(ctx, c.group(ctx, items))
	}
}

// A group is the items for one node. A nil node means that the ClusterClient routes the items.
type group struct {
	node  *redis.Client
	items []*item
}

// group sorts items by node. It gives an item that has no route an error and leaves it out.
func (c *Conn) group(ctx context.Context, items []*item) []group {
	var groups []group
next:
	for _, it := range items {
		if !c.route(ctx, it) {
			continue
		}
		for i := range groups { // a handful: clusters have few primaries
			if groups[i].node == it.node {
				groups[i].items = append(groups[i].items, it)
				continue next
			}
		}
		groups = append(groups, group{it.node, []*item{it}})
	}
	return groups
}

// route sets an item's node, or its err.
func (c *Conn) route(ctx context.Context, it *item) bool {
	if it.redirected {
		it.node = nil
		return true
	}
	key := it.key
	if key == "" && it.keyPos == 0 {
		key = strconv.Itoa(rand.IntN(1 << 14)) //nolint:gosec // any node will do
	}
	node, err := c.cluster.MasterForKey(ctx, key)
	if err != nil {
		it.err, it.fatal = err, errors.Is(err, redis.ErrClosed)
		return false
	}
	it.node = node
	return true
}

func (c *Conn) sendGroups(ctx context.Context, groups []group) {
	if len(groups) == 1 {
		c.sendGroup(ctx, groups[0])
		return
	}
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() { c.sendGroup(ctx, g) })
	}
	wg.Wait()
}

func (c *Conn) sendGroup(ctx context.Context, g group) {
	if g.node != nil {
		sendTo(ctx, g.node, g.items)
		return
	}
	// go-redis alone can reach a node that is not in its table of slots, and
	// precede a command by ASKING. Its pipeline does so for any command; its
	// Process would split some by key, and lose NoRetry with that.
	pipelined(ctx, c.cluster.Pipeline(), g.items)
	for _, it := range g.items {
		it.redirected = it.err != nil && isRedirect(it.err)
	}
}

func sendTo(ctx context.Context, node *redis.Client, items []*item) {
	if len(items) == 1 {
		items[0].err = node.Process(ctx, items[0])
		return
	}
	pipelined(ctx, node.Pipeline(), items)
}

func pipelined(ctx context.Context, p redis.Pipeliner, items []*item) {
	for _, it := range items {
		_ = p.Process(ctx, it) // only queues
	}
	_, err := p.Exec(ctx)
	for _, it := range items {
		if it.err = it.Err(); it.err == nil && !it.written.Load() {
			it.err = err // of a hook that did not let the pipeline through
		}
	}
}

func isRedirect(err error) bool {
	if _, ok := redis.IsMovedError(err); ok {
		return true
	}
	_, ok := redis.IsAskError(err)
	return ok
}
