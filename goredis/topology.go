package goredis

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
)

const (
	warmTimeout = time.Second // for the first look at a cluster's slots
	warmAgain   = time.Second // between such looks when they fail
)

// warmth remembers whether the ClusterClient has its table of slots, without
// which asking it for a key's owner goes to the network.
type warmth struct {
	ready   atomic.Bool
	mu      sync.Mutex
	loading bool
	tried   time.Time
}

// Node names the primary that owns key, as host:port, and "" when the Conn stands
// for one server. On a Ring that is the key's shard. On a cluster it looks in the client's table of slots, which may lag behind
// the cluster by moments, and never waits: until that table is there, for which
// the first call asks, it returns "".
func (c *Conn) Node(key string) string {
	if c.ring != nil {
		return c.ring.addr(c.ring.place(key))
	}
	if c.cluster == nil || !c.warmUp() {
		return ""
	}
	node, err := c.cluster.MasterForKey(context.Background(), key)
	if err != nil {
		return ""
	}
	return node.Options().Addr
}

// warmUp reports whether the table of slots is there, and sees to it in the
// background.
func (c *Conn) warmUp() bool {
	if c.warm.ready.Load() {
		return true
	}
	c.warm.mu.Lock()
	defer c.warm.mu.Unlock()
	if c.warm.loading || time.Since(c.warm.tried) < warmAgain {
		return false
	}
	c.warm.loading = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), warmTimeout)
		defer cancel()
		_, err := c.cluster.MasterForKey(ctx, "")
		c.warm.ready.Store(err == nil)
		c.warm.mu.Lock()
		defer c.warm.mu.Unlock()
		c.warm.loading, c.warm.tried = false, time.Now()
	}()
	return false
}

// Primaries returns a Conn for each primary of a cluster, ordered by address,
// after a fresh look at the cluster, and for each shard of a Ring; elsewhere it
// returns c itself. Commands on
// these Conns don't follow redirects: what a primary doesn't own is an error.
func (c *Conn) Primaries(ctx context.Context) ([]redoubt.Conn, error) {
	switch {
	case c.ring != nil:
		conns := make([]redoubt.Conn, len(c.ring.names))
		for i, name := range c.ring.names {
			conns[i] = c.ring.shards[name]
		}
		return conns, nil
	case c.cluster == nil:
		return []redoubt.Conn{c}, nil
	}
	nodes, err := c.primaries(ctx)
	if err != nil {
		return nil, err
	}
	conns := make([]redoubt.Conn, len(nodes))
	for i, node := range nodes {
		if conns[i], err = Wrap(node); err != nil {
			return nil, err
		}
	}
	return conns, nil
}

// primaries asks the cluster for its slots and returns the clients of the
// primaries. It returns when ctx ends.
func (c *Conn) primaries(ctx context.Context) ([]*redis.Client, error) {
	type result struct {
		nodes []*redis.Client
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var mu sync.Mutex
		var r result
		r.err = c.cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			r.nodes = append(r.nodes, node)
			return nil
		})
		done <- r
	}()
	select {
	case r := <-done:
		slices.SortFunc(r.nodes, func(a, b *redis.Client) int {
			return cmp.Compare(a.Options().Addr, b.Options().Addr)
		})
		return r.nodes, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
