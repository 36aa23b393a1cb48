package redoubt

import (
	"context"
	"errors"
)

// ErrNoSubscriber is returned by [Client.Subscribe] on a Conn that is no
// [Subscriber].
var ErrNoSubscriber = errors.New("redoubt: the Conn can't subscribe")

// CanSubscribe reports whether the Conn is a [Subscriber].
func (c *Client) CanSubscribe() bool {
	_, ok := c.conn.(Subscriber)
	return ok
}

// Subscribe listens on a channel that any client may publish to, on a cluster too: see [Subscriber]. Use
// it for messages to all processes, and a [Waiter] to wait for one key.
func (c *Client) Subscribe(ctx context.Context, channel string, on func(payload string, lost bool)) (stop func(), err error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	s, ok := c.conn.(Subscriber)
	if !ok {
		return nil, ErrNoSubscriber
	}
	return c.single.health.subscribe(ctx, s, channel, false, on)
}
