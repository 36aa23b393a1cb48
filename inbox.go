package redoubt

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Waiter receives the wake-ups for one key. A script that frees something publishes the key to the
// channel of one process that waits for it, and that process wakes its oldest Waiter for the key.
//
// A Client has one channel for all its Waiters, its inbox, and subscribes to it when the first Waiter is
// made. On a cluster with sharded pub/sub (Redis 7) the channel must be in the slot of the key, so there
// it is one channel per name, on one connection per node.
type Waiter struct {
	// C receives a value when the key may be worth another try: after a wake-up, and after a lost
	// connection that may have lost one.
	C <-chan struct{}
	// Channel is the channel that gets the key, and Verb the command that publishes it, PUBLISH or
	// SPUBLISH.
	Channel, Verb string

	c     chan struct{}
	inbox *inbox
	key   string
	sub   *subscription
}

// Waiter returns a new Waiter for key, one of name's keys. It returns once the
// subscription is confirmed: one round trip, and none once the inbox is open.
// Close it after use.
func (c *Client) Waiter(ctx context.Context, name, key string) (*Waiter, error) {
	return c.inbox.waiter(ctx, name, key)
}

// inbox holds a client's subscriptions and its waiters.
type inbox struct {
	client *Client
	ctx    context.Context //nolint:containedctx // ends with the client: nothing is subscribed any more
	end    context.CancelFunc

	mu      sync.Mutex
	verb    string
	closed  bool
	subs    map[string]*subscription // by channel
	waiters map[string][]*Waiter     // by key, oldest first
}

type subscription struct {
	channel string
	refs    int
	ready   chan struct{} // closed when stop and err are set
	stop    func()
	err     error
}

func (b *inbox) waiter(ctx context.Context, name, key string) (*Waiter, error) {
	verb, err := b.publishVerb(ctx)
	if err != nil {
		return nil, err
	}
	w := &Waiter{inbox: b, key: key, Verb: verb, c: make(chan struct{}, 1)}
	w.C = w.c
	if verb == "SPUBLISH" {
		w.Channel = b.client.prefix + ":{" + name + "}:wake:" + b.client.id
	} else {
		w.Channel = b.client.prefix + ":{" + b.client.id + "}:wake"
	}
	if w.sub, err = b.subscribe(ctx, w.Channel, verb == "SPUBLISH"); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiters == nil {
		b.waiters = make(map[string][]*Waiter)
	}
	b.waiters[key] = append(b.waiters[key], w)
	return w, nil
}

// Close ends the wake-ups. It passes a wake-up that was not received on to the next Waiter of the same
// key in this process. It always returns nil.
func (w *Waiter) Close() error {
	b := w.inbox
	b.mu.Lock()
	rest := slices.DeleteFunc(b.waiters[w.key], func(o *Waiter) bool { return o == w })
	if len(rest) == 0 {
		delete(b.waiters, w.key)
	} else {
		b.waiters[w.key] = rest
	}
	b.mu.Unlock()
	select {
	case <-w.c:
		b.wake(w.key)
	default:
	}
	b.release(w.sub)
	return nil
}

// wake wakes the oldest waiter of key that has not been woken yet.
func (b *inbox) wake(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.waiters[key] {
		select {
		case w.c <- struct{}{}:
			return
		default:
		}
	}
}

// wakeAll wakes all waiters of s, or all waiters when s is nil: wake-ups may have been lost.
func (b *inbox) wakeAll(s *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ws := range b.waiters {
		for _, w := range ws {
			if s != nil && w.sub != s {
				continue
			}
			select {
			case w.c <- struct{}{}:
			default:
			}
		}
	}
}

// subscribe returns the subscription to channel, made when this is its first
// use. Callers that come while it is being made wait for that.
func (b *inbox) subscribe(ctx context.Context, channel string, sharded bool) (*subscription, error) {
	for {
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return nil, ErrClosed
		}
		s := b.subs[channel]
		if s == nil {
			return b.open(ctx, channel, sharded)
		}
		s.refs++
		b.mu.Unlock()
		select {
		case <-s.ready:
		case <-ctx.Done():
			b.release(s)
			return nil, ctx.Err()
		}
		if s.err == nil {
			return s, nil
		}
		// The caller that was making it failed, maybe because its own ctx
		// ended: this caller makes its own attempt.
		if ctx.Err() != nil || !errors.Is(s.err, context.Canceled) && !errors.Is(s.err, context.DeadlineExceeded) {
			return nil, s.err
		}
	}
}

// open makes the subscription to channel. b.mu is held on entry.
func (b *inbox) open(ctx context.Context, channel string, sharded bool) (*subscription, error) {
	s := &subscription{channel: channel, refs: 1, ready: make(chan struct{}), stop: func() {}}
	if !sharded {
		s.refs++ // the inbox stays open until the client is closed
	}
	if b.subs == nil {
		b.subs = make(map[string]*subscription)
	}
	b.subs[channel] = s
	b.mu.Unlock()

	// Without a Subscriber nothing wakes the waiters: they wait until the lease ends.
	var stop func()
	var err error
	if sc, ok := b.client.conn.(Subscriber); ok {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(b.ctx, cancel)()
		h := b.client.single.health
		if sharded {
			h = b.client.combinerAt(channel).health
		}
		stop, err = h.subscribe(ctx, sc, channel, sharded, func(payload string, lost bool) {
			if lost {
				b.wakeAll(s)
				return
			}
			b.wake(payload)
		})
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(s.ready)
	if err != nil {
		s.err = err
		if b.subs[channel] == s {
			delete(b.subs, channel)
		}
		return nil, err
	}
	if stop != nil {
		s.stop = stop
	}
	if b.closed {
		return nil, ErrClosed // close waits for ready and stops it
	}
	return s, nil
}

// release drops one use of s and ends the subscription with its last.
func (b *inbox) release(s *subscription) {
	b.mu.Lock()
	s.refs--
	last := s.refs == 0 && b.subs[s.channel] == s
	if last {
		delete(b.subs, s.channel)
	}
	b.mu.Unlock()
	if last {
		<-s.ready
		s.stop()
	}
}

func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.end()
	subs := b.subs
	b.subs = nil
	b.mu.Unlock()
	for _, s := range subs {
		<-s.ready
		s.stop()
	}
	b.wakeAll(nil)
}

// publishVerb finds out once whether scripts publish on sharded channels: on a cluster, from
// Redis 7 on. HELLO tells it, through a proxy in front of a cluster too. A server without HELLO, or
// without either field in its reply, counts as no cluster.
func (b *inbox) publishVerb(ctx context.Context) (string, error) {
	b.mu.Lock()
	verb := b.verb
	b.mu.Unlock()
	if verb != "" {
		return verb, nil
	}
	verb = "PUBLISH"
	if _, listens := b.client.conn.(Subscriber); listens {
		r := b.client.single.health.do(ctx, Cmd{Name: "HELLO", Flags: ReadOnly})
		if _, answered := errors.AsType[ServerError](r.Err); r.Err != nil && (!answered || IsCode(r.Err, "BUSY")) {
			return "", r.Err
		}
		if mode, major := greeting(r); mode == "cluster" && major >= 7 {
			verb = "SPUBLISH"
		}
	}
	b.mu.Lock()
	b.verb = verb
	b.mu.Unlock()
	return verb, nil
}

// greeting reads the mode and the major version from a reply to HELLO. Valkey's versions begin
// with 7.
func greeting(r Reply) (mode string, major int) {
	fields, _ := r.Array()
	for i := 0; i+1 < len(fields); i += 2 {
		value, _ := fields[i+1].(string)
		switch fields[i] {
		case "mode":
			mode = value
		case "version":
			first, _, _ := strings.Cut(value, ".")
			major, _ = strconv.Atoi(first) // 0 if it is none
		}
	}
	return mode, major
}
