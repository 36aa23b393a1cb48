package goredis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
)

// Subscribe listens on a channel: see [redoubt.Subscriber]. It costs one round
// trip and, for the first channel on a server, a connection, which is kept for a
// second after the last channel was stopped. A connection that is silent for
// three seconds is asked for a sign of life and replaced when there is none
// within three more.
//
// On a Ring an ordinary channel is subscribed on every shard. A shard that is silent for a second is
// subscribed later, and on is called with lost then.
//
// After stop has returned no new call of on begins; one may be under way.
func (c *Conn) Subscribe(ctx context.Context, name string, sharded bool, on func(payload string, lost bool)) (stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.ring != nil {
		return c.ring.subscribe(ctx, name, sharded, on)
	}
	return c.hubs.Subscribe(ctx, name, sharded, on)
}

// A hubClient makes the subscription connections of a Conn.
type hubClient struct{ *Conn }

func (c hubClient) Owner(ctx context.Context, channel string) (string, error) {
	if c.cluster == nil {
		return "", nil
	}
	type result struct {
		node *redis.Client
		err  error
	}
	done := make(chan result, 1)
	go func() { // MasterForKey may have to ask the cluster for its slots
		node, err := c.cluster.MasterForKey(ctx, channel)
		done <- result{node, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return "", r.err
		}
		return r.node.Options().Addr, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (c hubClient) Refresh(ctx context.Context) error {
	_, err := c.primaries(ctx)
	return err
}

func (c hubClient) Final(b *conn.Hub, err error) error {
	if re, ok := errors.AsType[redis.Error](err); ok {
		if se := redoubt.ServerError(re.Error()); !conn.Transient(se) {
			return se
		}
	}
	if errors.Is(err, redis.ErrClosed) && b.Node == "" {
		return err
	}
	return nil
}
