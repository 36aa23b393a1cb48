package valkeyconn

import (
	"context"

	"github.com/valkey-io/valkey-go"

	"github.com/redoubt-go/redoubt/internal/conn"
)

type loadKey struct {
	node   *node // nil elsewhere than on a cluster
	digest string
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
		if c.slots != nil && it.node == nil || it.loads > conn.MaxLoads {
			it.eval = true
			continue
		}
		key := loadKey{it.node, it.script.Digest()}
		err, known := loaded[key]
		if !known {
			err = c.loads.Do(ctx, key, func(ctx context.Context) error {
				client := c.client
				if it.node != nil {
					client = it.node.client
				}
				return client.Do(ctx, command(client, "SCRIPT", "LOAD", it.script.Source())).Error()
			})
			loaded[key] = err
		}
		it.eval = err != nil
	}
}

// command builds a command without keys.
func command(client valkey.Client, words ...string) valkey.Completed {
	return client.B().Arbitrary(words...).Build()
}
