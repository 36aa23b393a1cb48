package rueidisconn

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redoubt-go/redoubt"
)

// loadTimeout bounds one SCRIPT LOAD, which goes on for others when the caller that began it has left.
const loadTimeout = 5 * time.Second

// loads are the SCRIPT LOADs under way, so that many callers that miss a script at the same time load it
// once.
type loads struct {
	mu sync.Mutex
	m  map[loadKey]*load
}

type loadKey struct {
	node   *node // nil elsewhere than on a cluster
	digest string
}

type load struct {
	done chan struct{}
	err  error
}

// loadMissed loads the scripts that items missed, each on the node that missed it. An item that can't have
// its script loaded, or has had it loaded and missed it again, sends the script's text next time.
func (c *Conn) loadMissed(ctx context.Context, items []*item) {
	loaded := make(map[loadKey]error)
	for _, it := range items {
		if !it.missed {
			continue
		}
		it.loads++
		if c.slots != nil && it.node == nil || it.loads > maxLoads {
			it.eval = true
			continue
		}
		key := loadKey{it.node, it.script.Digest()}
		err, known := loaded[key]
		if !known {
			err = c.load(ctx, key, it.script)
			loaded[key] = err
		}
		it.eval = err != nil
	}
}

func (c *Conn) load(ctx context.Context, key loadKey, s *redoubt.Script) error {
	c.loads.mu.Lock()
	if l := c.loads.m[key]; l != nil {
		c.loads.mu.Unlock()
		<-l.done
		return l.err
	}
	l := &load{done: make(chan struct{})}
	if c.loads.m == nil {
		c.loads.m = make(map[loadKey]*load)
	}
	c.loads.m[key] = l
	c.loads.mu.Unlock()

	client := c.client
	if key.node != nil {
		client = key.node.client
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	l.err = client.Do(ctx, command(client, "SCRIPT", "LOAD", s.Source())).Error()
	cancel()

	c.loads.mu.Lock()
	delete(c.loads.m, key)
	c.loads.mu.Unlock()
	close(l.done)
	return l.err
}

// command builds a command without keys.
func command(client rueidis.Client, words ...string) rueidis.Completed {
	return client.B().Arbitrary(words...).Build()
}
