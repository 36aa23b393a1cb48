package goredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/conn"
)

type loadKey struct {
	node   *redis.Client
	digest string
}

// loadMissed loads the scripts that items missed, each on the node that missed
// it. An item that can't have its script loaded, or has had it loaded and missed
// it again, sends the script's text next time.
func (c *Conn) loadMissed(ctx context.Context, items []*item) {
	loaded := make(map[loadKey]error)
	for _, it := range items {
		if !it.missed {
			continue
		}
		it.loads++
		if it.node == nil || it.loads > conn.MaxLoads {
			it.eval = true
			continue
		}
		key := loadKey{it.node, it.script.Digest()}
		err, known := loaded[key]
		if !known {
			err = c.loads.Do(ctx, key, func(ctx context.Context) error {
				return it.node.ScriptLoad(ctx, it.script.Source()).Err()
			})
			loaded[key] = err
		}
		it.eval = err != nil
	}
}
