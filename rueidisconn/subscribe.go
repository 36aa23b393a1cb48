package rueidisconn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redoubt-go/redoubt"
)

const (
	hubPing    = 3 * time.Second // between two pings, and before giving up on the answer
	hubLinger  = time.Second     // how long a hub without channels is kept
	hubCommand = 5 * time.Second // for one command
)

// hubs are a Conn's subscription connections: one for ordinary channels and one for sharded ones; on a cluster
// one a node for sharded ones.
type hubs struct {
	conn *Conn

	mu  sync.Mutex // guards all that hangs below
	all map[hubKey]*hub
}

// A hubKey names a hub: node is the address of the primary for sharded channels on a cluster and empty
// elsewhere.
type hubKey struct {
	node    string
	sharded bool
}

// A channel is what all listeners to one name share. It moves from hub to hub when its slot does.
type channel struct {
	name      string
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

// A hub is one subscription connection and what is subscribed on it. One goroutine commands it, and the
// reader delivers what comes. After any trouble the connection is given up and a new one subscribes
// everything again.
type hub struct {
	hubs   *hubs
	key    hubKey
	ctx    context.Context //nolint:containedctx // ends with the hub
	cancel context.CancelFunc
	kick   chan struct{}

	// Guarded by hubs.mu.
	channels map[string]*channel
	unwanted []string        // to be unsubscribed
	leaving  map[string]bool // being unsubscribed
	err      error           // of the last connection
	linger   *time.Timer
}

// Subscribe listens on a channel: see [redoubt.Subscriber]. It costs one round trip and, for the first
// channel on a server, a connection, which is kept for a second after the last channel was stopped. The
// connection is pinged every three seconds and replaced when there is no answer within three more.
//
// After stop has returned no new call of on begins; one may be under way.
func (c *Conn) Subscribe(ctx context.Context, name string, sharded bool, on func(payload string, lost bool)) (stop func(), err error) {
	if err := ended(ctx); err != nil {
		return nil, err
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
		return nil, fmt.Errorf("rueidisconn: subscription to %q was not confirmed within %v", name, giveUpAfter)
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
		if ch := b.channels[name]; ch != nil && b.key.sharded == sharded {
			ch.listeners = append(ch.listeners, l)
			return ch, nil
		}
	}
	ch := &channel{name: name, listeners: []*listener{l}, ready: make(chan struct{})}
	h.assign(ch, key)
	return ch, nil
}

// owner returns the key of the hub that a channel belongs to now.
func (h *hubs) owner(ctx context.Context, name string, sharded bool) (hubKey, error) {
	s := h.conn.slots
	if s == nil || !sharded {
		return hubKey{sharded: sharded}, nil
	}
	t := s.table.Load()
	if t == nil || t.owner[slotOf(name)] == nil {
		var err error
		if t, err = s.fresh(ctx); err != nil {
			return hubKey{}, err
		}
	}
	n := t.owner[slotOf(name)]
	if n == nil {
		return hubKey{}, fmt.Errorf("rueidisconn: no primary owns the slot of channel %q", name)
	}
	return hubKey{n.addr, true}, nil
}

// assign puts ch on the hub with the given key. h.mu is held.
func (h *hubs) assign(ch *channel, key hubKey) {
	b := h.all[key]
	if b == nil {
		b = &hub{hubs: h, key: key, kick: make(chan struct{}, 1), channels: make(map[string]*channel)}
		b.ctx, b.cancel = context.WithCancel(context.Background())
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
	b.wake()
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
		b.wake()
	}
	b.closeWhenIdle()
}

// cause returns the error that keeps ch from being confirmed, if one is known.
func (h *hubs) cause(ch *channel) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return ch.hub.err
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

func (b *hub) wake() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// closeWhenIdle closes the hub a little after its last channel went. hubs.mu is held.
func (b *hub) closeWhenIdle() {
	if len(b.channels) > 0 || b.linger != nil {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(hubLinger, func() {
		b.hubs.mu.Lock()
		defer b.hubs.mu.Unlock()
		if b.linger != t || len(b.channels) > 0 {
			return
		}
		if b.hubs.all[b.key] == b {
			delete(b.hubs.all, b.key)
		}
		b.cancel()
	})
	b.linger = t
}

// run connects again and again until the hub ends.
func (b *hub) run() {
	var p pauses
	for b.ctx.Err() == nil {
		start := time.Now()
		err := b.session()
		if b.ctx.Err() != nil {
			return
		}
		b.failed(err)
		if time.Since(start) > hubPing {
			p = pauses{} // it worked for a while
		}
		p.until = time.Now().Add(time.Hour) // listeners stop when they give up
		_ = p.wait(b.ctx)
		if b.key.node != "" {
			b.rehome()
		}
	}
}

// failed notes why the connection ended, and tells the subscribers that no new connection can help.
func (b *hub) failed(err error) {
	closed := errors.Is(err, rueidis.ErrClosing) && b.hubs.conn.client.Mode() == rueidis.ClientModeStandalone
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	b.err = err
	for _, ch := range b.channels {
		ch.sent = false
		if !ch.confirmed && closed {
			b.refuse(ch, err)
		}
	}
	b.unwanted = nil
}

// refuse ends the waiting for ch's first confirmation. hubs.mu is held.
func (b *hub) refuse(ch *channel, err error) {
	ch.err = err
	close(ch.ready)
	b.hubs.drop(ch)
}

// session is one connection's life.
func (b *hub) session() error {
	client, err := b.client()
	if err != nil {
		return err
	}
	conn, release := client.Dedicate()
	moved := make(chan struct{})
	end := sync.OnceFunc(func() { close(moved) })
	broken := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			b.hubs.mu.Lock()
			ch := b.channels[m.Channel]
			b.hubs.mu.Unlock()
			if ch != nil {
				b.hubs.deliver(ch, m.Message, false)
			}
		},
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "sunsubscribe" && b.lost(s.Channel) {
				end()
			}
		},
	})
	defer func() {
		go func() { // closing waits for a silent server
			conn.Close()
			release()
		}()
	}()
	b.hubs.mu.Lock()
	for _, ch := range b.channels {
		ch.sent = false
	}
	b.unwanted = nil
	b.hubs.mu.Unlock()
	b.wake()

	ping := time.NewTicker(hubPing)
	defer ping.Stop()
	for {
		select {
		case <-b.kick:
			err = b.update(conn)
		case <-ping.C:
			ctx, cancel := context.WithTimeout(b.ctx, hubPing)
			err = conn.Do(ctx, conn.B().Ping().Build()).Error()
			cancel()
		case err = <-broken:
			if err == nil {
				err = errors.New("rueidisconn: the subscription's connection is closed")
			}
		case <-moved:
			err = redoubt.ServerError("MOVED the server ended the subscription: the slot has moved")
		case <-b.ctx.Done():
			err = b.ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

var errMoved = errors.New("rueidisconn: the node has no slot of these channels any more")

// client returns the client of the hub's node.
func (b *hub) client() (rueidis.Client, error) {
	s := b.hubs.conn.slots
	if s == nil {
		return b.hubs.conn.client, nil
	}
	t := s.table.Load()
	if t == nil || len(t.nodes) == 0 {
		ctx, cancel := context.WithTimeout(b.ctx, hubCommand)
		defer cancel()
		var err error
		if t, err = s.fresh(ctx); err != nil {
			return nil, err
		}
	}
	if b.key.node == "" {
		n := t.nodes[rand.IntN(len(t.nodes))] //nolint:gosec // any node will do
		if n.client == nil {
			return nil, errMoved
		}
		return n.client, nil
	}
	for _, n := range t.nodes {
		if n.addr == b.key.node && n.client != nil {
			return n.client, nil
		}
	}
	return nil, errMoved
}

// lost reports whether the end of a subscription is the server's doing.
func (b *hub) lost(channel string) bool {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	return !b.leaving[channel] && b.channels[channel] != nil
}

// update subscribes what is new and unsubscribes what is unwanted.
func (b *hub) update(conn rueidis.DedicatedClient) error {
	b.hubs.mu.Lock()
	remove := b.unwanted
	b.unwanted, b.leaving = nil, make(map[string]bool)
	var add []*channel
	for _, ch := range b.channels {
		if !ch.sent {
			ch.sent = true
			add = append(add, ch)
		}
	}
	for _, name := range remove {
		b.leaving[name] = true
	}
	b.hubs.mu.Unlock()

	// One command a channel: a cluster refuses one for channels of different slots.
	cmds := make([]rueidis.Completed, 0, len(add)+len(remove))
	for _, name := range remove {
		if b.key.sharded {
			cmds = append(cmds, conn.B().Sunsubscribe().Channel(name).Build())
		} else {
			cmds = append(cmds, conn.B().Unsubscribe().Channel(name).Build())
		}
	}
	for _, ch := range add {
		if b.key.sharded {
			cmds = append(cmds, conn.B().Ssubscribe().Channel(ch.name).Build())
		} else {
			cmds = append(cmds, conn.B().Subscribe().Channel(ch.name).Build())
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, hubCommand)
	defer cancel()
	replies := conn.DoMulti(ctx, cmds...)
	for _, r := range replies[:len(remove)] {
		if err := r.NonRedisError(); err != nil {
			return err
		}
	}
	var trouble error
	for i, r := range replies[len(remove):] {
		if err := b.answered(add[i], r); err != nil {
			trouble = err
		}
	}
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	b.leaving = nil
	return trouble
}

// answered handles the server's answer to a SUBSCRIBE. It returns an error that a new connection may mend.
func (b *hub) answered(ch *channel, r rueidis.RedisResult) error {
	err := r.NonRedisError()
	if err == nil {
		if m, no := r.ToMessage(); no != nil && !m.IsNil() {
			err = serverError(m)
		}
	}
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	if b.channels[ch.name] != ch {
		return nil // stopped meanwhile
	}
	if err != nil {
		if se, ok := errors.AsType[redoubt.ServerError](err); ok && !passing(se) {
			if !ch.confirmed {
				b.refuse(ch, se)
			}
			return nil
		}
		return err
	}
	b.err = nil
	if !ch.confirmed {
		ch.confirmed = true
		close(ch.ready)
		return nil
	}
	b.hubs.mu.Unlock()
	b.hubs.deliver(ch, "", true)
	b.hubs.mu.Lock()
	return nil
}

// passing reports whether the server may take the subscription later, or another server.
func passing(se redoubt.ServerError) bool {
	switch se.Code() {
	case "MOVED", "ASK", "CLUSTERDOWN", "TRYAGAIN", "LOADING", "MASTERDOWN", "READONLY":
		return true
	}
	return false
}

// rehome looks at the cluster anew and moves the channels whose slots are elsewhere now.
func (b *hub) rehome() {
	ctx, cancel := context.WithTimeout(b.ctx, hubCommand)
	defer cancel()
	if _, err := b.hubs.conn.slots.fresh(ctx); err != nil {
		return // try again after the next session
	}
	b.hubs.mu.Lock()
	channels := make([]*channel, 0, len(b.channels))
	for _, ch := range b.channels {
		channels = append(channels, ch)
	}
	b.hubs.mu.Unlock()
	for _, ch := range channels {
		key, err := b.hubs.owner(ctx, ch.name, true)
		if err != nil {
			return
		}
		b.hubs.mu.Lock()
		if key != b.key && b.channels[ch.name] == ch && b.ctx.Err() == nil {
			delete(b.channels, ch.name)
			b.hubs.assign(ch, key)
			b.closeWhenIdle()
		}
		b.hubs.mu.Unlock()
	}
}
