package conn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Hubs are a Conn's subscription connections: one for ordinary channels and one for sharded ones; on a cluster
// one a node for sharded ones. Set the exported fields first.
type Hubs struct {
	Package string // the Conn's, for the texts of errors
	Client  HubClient

	mu  sync.Mutex // guards all that hangs below
	all map[hubKey]*Hub
}

// A HubClient is what Hubs need of the client below a Conn.
type HubClient interface {
	// Owner returns the address of the primary that a sharded channel belongs to now, "" elsewhere than on a
	// cluster.
	Owner(ctx context.Context, channel string) (node string, err error)
	// Refresh looks at the cluster anew.
	Refresh(ctx context.Context) error
	// Listen opens a connection and calls [Hub.Begin]. Whenever [Hub.Changed] says so it sends what [Hub.Pending]
	// returns. It returns an error when the connection fails or ctx ends.
	Listen(ctx context.Context, b *Hub) error
	// Final returns the error for new subscribers if Listen failed with err and no new connection can help. Else
	// it returns nil.
	Final(b *Hub, err error) error
}

// A hubKey names a hub.
type hubKey struct {
	Node    string // address of the primary for sharded channels on a cluster, "" elsewhere
	Sharded bool
}

// A Channel is what all listeners to one name share. It moves from hub to hub when its slot does.
type Channel struct {
	Name string

	// Guarded by Hubs.mu.
	hub       *Hub
	listeners []*listener
	sent      bool          // SUBSCRIBE was sent on the hub's present connection
	confirmed bool          // the server has confirmed it, on some connection
	ready     chan struct{} // closed when it is confirmed or refused
	err       error         // set with ready closed: the server refused it
}

type listener struct {
	mu      sync.Mutex // one call at a time, also while the channel moves
	on      func(payload string, lost bool)
	stopped bool // guarded by Hubs.mu
}

// Subscribe listens on a channel: see [redoubt.Subscriber].
//
// After stop has returned no new call of on begins; one may be under way.
func (h *Hubs) Subscribe(ctx context.Context, name string, sharded bool, on func(payload string, lost bool)) (stop func(), err error) {
	l := &listener{on: on}
	ch, err := h.add(ctx, name, sharded, l)
	if err != nil {
		return nil, err
	}
	stop = sync.OnceFunc(func() { h.remove(ch, l) })

	var gaveUp <-chan time.Time
	if _, bounded := ctx.Deadline(); !bounded {
		timer := time.NewTimer(GiveUpAfter)
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
	cause := h.cause(ch)
	stop()
	if errors.Is(err, errGaveUp) && cause == nil {
		return nil, fmt.Errorf("%s: subscription to %q was not confirmed within %v", h.Package, name, GiveUpAfter)
	}
	return nil, Stopped(err, cause)
}

// Close ends all subscriptions and waits for the connections to end.
func (h *Hubs) Close() {
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
func (h *Hubs) owner(ctx context.Context, name string, sharded bool) (hubKey, error) {
	if !sharded {
		return hubKey{}, nil
	}
	node, err := h.Client.Owner(ctx, name)
	return hubKey{node, true}, err
}

// add puts l on its channel and makes the channel when it is the first.
func (h *Hubs) add(ctx context.Context, name string, sharded bool, l *listener) (*Channel, error) {
	key, err := h.owner(ctx, name, sharded)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.all { // the channel may be on the hub of its former owner
		if ch := b.channels[name]; ch != nil && b.Sharded == sharded {
			ch.listeners = append(ch.listeners, l)
			return ch, nil
		}
	}
	ch := &Channel{Name: name, listeners: []*listener{l}, ready: make(chan struct{})}
	h.assign(ch, key)
	return ch, nil
}

// assign puts ch on the hub with the given key. h.mu is held.
func (h *Hubs) assign(ch *Channel, key hubKey) {
	b := h.all[key]
	if b == nil {
		ctx, cancel := context.WithCancel(context.Background())
		b = &Hub{
			hubKey: key, hubs: h, cancel: cancel,
			ended: make(chan struct{}), changed: make(chan struct{}, 1),
			channels: make(map[string]*Channel),
		}
		if h.all == nil {
			h.all = make(map[hubKey]*Hub)
		}
		h.all[key] = b
		go b.run(ctx)
	}
	if b.linger != nil {
		b.linger.Stop()
		b.linger = nil
	}
	ch.hub, ch.sent = b, false
	b.channels[ch.Name] = ch
	b.wake()
}

// remove takes l off its channel and ends the channel with its last listener.
func (h *Hubs) remove(ch *Channel, l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.stopped = true
	ch.listeners = slices.DeleteFunc(slices.Clone(ch.listeners), func(o *listener) bool { return o == l })
	if len(ch.listeners) == 0 {
		ch.hub.drop(ch)
	}
}

// cause returns the error that keeps ch from being confirmed, if one is known.
func (h *Hubs) cause(ch *Channel) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return ch.hub.err
}
