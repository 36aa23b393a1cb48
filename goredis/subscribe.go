package goredis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
)

// hubs are a Conn's subscription connections: one for ordinary channels, and on
// a cluster one a node for sharded ones.
type hubs struct {
	conn *Conn

	mu  sync.Mutex // guards all that hangs below
	all map[hubKey]*hub
}

// A hubKey names a hub: node is the address of the primary for sharded channels
// on a cluster and empty elsewhere.
type hubKey struct {
	node    string
	sharded bool
}

// A channel is what all listeners to one name share. It moves from hub to hub
// when its slot does.
type channel struct {
	name      string
	sharded   bool
	hub       *hub
	listeners []*listener

	sent      bool // SUBSCRIBE was sent on the hub's present connection
	confirmed bool // the server has confirmed it, on some connection
	ready     chan struct{}
	err       error // set with ready closed: the server refused it
}

type listener struct {
	mu      sync.Mutex // one call at a time, also while the channel moves
	on      func(payload string, lost bool)
	stopped bool // guarded by hubs.mu
}

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
	l := &listener{on: on}
	ch, err := c.hubs.add(ctx, name, sharded, l)
	if err != nil {
		return nil, err
	}
	stop = sync.OnceFunc(func() { c.hubs.remove(ch, l) })

	var gaveUp <-chan time.Time
	if _, bounded := ctx.Deadline(); !bounded {
		timer := time.NewTimer(giveUpAfter)
		defer timer.Stop()
		gaveUp = timer.C
	}
	select {
	case <-ch.ready:
		if ch.err != nil {
			stop()
			return nil, ch.err
		}
		return stop, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-gaveUp:
		err = errGaveUp
	}
	cause := c.hubs.cause(ch)
	stop()
	if errors.Is(err, errGaveUp) && cause == nil {
		return nil, fmt.Errorf("goredis: subscription to %q was not confirmed within %v", name, giveUpAfter)
	}
	return nil, stopped(err, cause)
}

// add puts l on its channel and makes the channel when it is the first.
func (h *hubs) add(ctx context.Context, name string, sharded bool, l *listener) (*channel, error) {
	key, err := h.owner(ctx, name, sharded)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.all { // the channel may be on the hub of its former owner
		if ch := b.channels[name]; ch != nil && ch.sharded == sharded {
			ch.listeners = append(ch.listeners, l)
			return ch, nil
		}
	}
	ch := &channel{name: name, sharded: sharded, listeners: []*listener{l}, ready: make(chan struct{})}
	h.assign(ch, key)
	return ch, nil
}

// assign puts ch on the hub with the given key. h.mu is held.
func (h *hubs) assign(ch *channel, key hubKey) {
	b := h.all[key]
	if b == nil {
		b = newHub(h, key)
		if h.all == nil {
			h.all = make(map[hubKey]*hub)
		}
		h.all[key] = b
		go b.run()
	}
	if b.linger != nil {
		b.linger.Stop()
		b.linger = nil
	}
	ch.hub, ch.sent = b, false
	b.channels[ch.name] = ch
	b.kickWriter()
}

// remove takes l off its channel and ends the channel with its last listener.
func (h *hubs) remove(ch *channel, l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.stopped = true
	ch.listeners = slices.DeleteFunc(slices.Clone(ch.listeners), func(o *listener) bool { return o == l })
	if len(ch.listeners) == 0 {
		h.drop(ch)
	}
}

// drop takes ch off its hub. h.mu is held.
func (h *hubs) drop(ch *channel) {
	b := ch.hub
	if b.channels[ch.name] != ch {
		return
	}
	delete(b.channels, ch.name)
	if ch.sent {
		b.unwanted = append(b.unwanted, ch.name)
		b.kickWriter()
	}
	b.closeWhenIdle()
}

// cause returns the error that keeps ch from being confirmed, if one is known.
func (h *hubs) cause(ch *channel) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return ch.hub.err
}

// close ends all subscriptions.
func (h *hubs) close() {
	h.mu.Lock()
	hubs := h.all
	h.all = nil
	for _, b := range hubs {
		b.cancel()
	}
	h.mu.Unlock()
	for _, b := range hubs {
		<-b.ended
	}
}

// owner returns the key of the hub that a channel belongs to now.
func (h *hubs) owner(ctx context.Context, name string, sharded bool) (hubKey, error) {
	if h.conn.cluster == nil || !sharded {
		return hubKey{sharded: sharded}, nil
	}
	type result struct {
		node *redis.Client
		err  error
	}
	done := make(chan result, 1)
	go func() { // MasterForKey may have to ask the cluster for its slots
		node, err := h.conn.cluster.MasterForKey(ctx, name)
		done <- result{node, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return hubKey{}, r.err
		}
		return hubKey{r.node.Options().Addr, true}, nil
	case <-ctx.Done():
		return hubKey{}, ctx.Err()
	}
}

// deliver calls a channel's listeners.
func (h *hubs) deliver(ch *channel, payload string, lost bool) {
	h.mu.Lock()
	listeners := ch.listeners // never changed in place
	h.mu.Unlock()
	for _, l := range listeners {
		l.mu.Lock()
		h.mu.Lock()
		stopped := l.stopped
		h.mu.Unlock()
		if !stopped {
			l.on(payload, lost)
		}
		l.mu.Unlock()
	}
}

// refused reports whether the server's error is final for a subscription.
func refused(err error) (redoubt.ServerError, bool) {
	se, ok := errors.AsType[redis.Error](err)
	if !ok {
		return "", false
	}
	text := redoubt.ServerError(se.Error())
	switch text.Code() {
	case "MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN", "LOADING", "MASTERDOWN", "READONLY":
		return text, false
	}
	return text, true
}
