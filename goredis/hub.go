package goredis

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
)

const (
	hubPing    = 3 * time.Second // silence before a ping, and before giving up on its answer
	hubLinger  = time.Second     // how long a hub without channels is kept
	hubCommand = 5 * time.Second // for writing one command, dialling included
	hubHome    = time.Second     // between two looks at whether the server is the master still
)

// A hub is one subscription connection and what is subscribed on it. One
// goroutine reads, another writes. After any trouble the connection is given up
// and a new one subscribes everything again: go-redis would reconnect by itself,
// but with one SSUBSCRIBE for all channels, which a cluster refuses when they
// are of different slots.
type hub struct {
	hubs   *hubs
	key    hubKey
	ctx    context.Context //nolint:containedctx // ends with the hub
	cancel context.CancelFunc
	ended  chan struct{} // closed when the goroutines are gone
	kick   chan struct{}

	// Guarded by hubs.mu.
	channels map[string]*channel
	unwanted []string // to be unsubscribed
	// The requests that the server has not answered on the present connection, by channel:
	// only the answer to the last SUBSCRIBE confirms one that was stopped and
	// subscribed again, and an answer that nobody waits for is news.
	subscribing, unsubscribing map[string]int
	err                        error // of the last connection
	linger                     *time.Timer
}

func newHub(h *hubs, key hubKey) *hub {
	ctx, cancel := context.WithCancel(context.Background())
	return &hub{
		hubs: h, key: key, ctx: ctx, cancel: cancel,
		ended:    make(chan struct{}),
		kick:     make(chan struct{}, 1),
		channels: make(map[string]*channel),
	}
}

func (b *hub) kickWriter() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// closeWhenIdle closes the hub a little after its last channel went. hubs.mu is
// held.
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
	defer close(b.ended)
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
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	b.err = err
	final := error(nil)
	if se, ok := refused(err); ok {
		final = se
	} else if errors.Is(err, redis.ErrClosed) && b.key.node == "" {
		final = err
	}
	for _, ch := range b.channels {
		ch.sent = false
		if final != nil && !ch.confirmed {
			ch.err = final
			close(ch.ready)
			b.hubs.drop(ch)
		}
	}
	b.unwanted = nil
}

// session is one connection's life.
func (b *hub) session() error {
	ps, err := b.open()
	if err != nil {
		return err
	}
	defer ps.Close()
	ctx, cancel := context.WithCancelCause(b.ctx)
	stop := context.AfterFunc(ctx, func() { _ = ps.Close() }) // unblocks the reader
	defer stop()
	var others sync.WaitGroup
	others.Go(func() { cancel(b.write(ctx, ps)) })
	if b.hubs.conn.sentinel {
		others.Go(func() { cancel(b.stays(ctx)) })
	}
	cancel(b.read(ctx, ps))
	others.Wait()
	return context.Cause(ctx)
}

var errElsewhere = errors.New("goredis: the master is another server now")

// stays returns once the subscription is not at the server that gets the commands. When Sentinels have made
// another server the master, the old one keeps its subscribers until it becomes a replica, some ten seconds later.
func (b *hub) stays(ctx context.Context) error {
	tick := time.NewTicker(hubHome)
	defer tick.Stop()
	count := redoubt.Cmd{Name: "PUBSUB NUMSUB", Flags: redoubt.ReadOnly}
	if b.key.sharded {
		count.Name = "PUBSUB SHARDNUMSUB"
	}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		ch := b.heard(nil)
		if ch == nil {
			continue
		}
		count.Args = []string{ch.name}
		ask, cancel := context.WithTimeout(ctx, hubCommand)
		r := b.hubs.conn.Do(ask, count)
		cancel()
		if _, ok := errors.AsType[redoubt.ServerError](r.Err); ok { // The user may not ask.
			<-ctx.Done()
			return ctx.Err()
		}
		if pair, _ := r.Val.([]any); len(pair) == 2 && pair[1] == int64(0) && b.heard(ch) != nil {
			return errElsewhere
		}
	}
}

// heard returns a channel that the server has confirmed on the present connection: want, or any if want is nil. It
// returns nil if there is none.
func (b *hub) heard(want *channel) *channel {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	for name, ch := range b.channels {
		if ch.sent && b.subscribing[name] == 0 && (want == nil || ch == want) {
			return ch
		}
	}
	return nil
}

// open returns a subscription without channels, and marks all as yet to be
// subscribed on it.
func (b *hub) open() (*redis.PubSub, error) {
	var ps *redis.PubSub
	switch c := b.hubs.conn; {
	case c.single != nil:
		ps = c.single.Subscribe(b.ctx)
	case b.key.node == "":
		ps = c.cluster.Subscribe(b.ctx)
	default:
		node, err := b.node()
		if err != nil {
			return nil, err
		}
		ps = node.Subscribe(b.ctx)
	}
	b.hubs.mu.Lock()
	for _, ch := range b.channels {
		ch.sent = false
	}
	b.unwanted = nil
	b.subscribing, b.unsubscribing = make(map[string]int), make(map[string]int)
	b.hubs.mu.Unlock()
	b.kickWriter()
	return ps, nil
}

var errMoved = errors.New("goredis: the node has no slot of these channels any more")

// node returns the client of the hub's node, which is the owner of a channel.
func (b *hub) node() (*redis.Client, error) {
	b.hubs.mu.Lock()
	names := make([]string, 0, len(b.channels))
	for name := range b.channels {
		names = append(names, name)
	}
	b.hubs.mu.Unlock()
	for _, name := range names {
		node, err := b.hubs.conn.cluster.MasterForKey(b.ctx, name)
		if err != nil {
			return nil, err
		}
		if node.Options().Addr == b.key.node {
			return node, nil
		}
	}
	return nil, errMoved
}

// rehome looks at the cluster anew and moves the channels whose slots are
// elsewhere now.
func (b *hub) rehome() {
	ctx, cancel := context.WithTimeout(b.ctx, hubCommand)
	defer cancel()
	if _, err := b.hubs.conn.primaries(ctx); err != nil {
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

// write subscribes what is new and unsubscribes what is unwanted, whenever it
// is kicked.
func (b *hub) write(ctx context.Context, ps *redis.PubSub) error {
	for {
		select {
		case <-b.kick:
		case <-ctx.Done():
			return ctx.Err()
		}
		add, remove := b.pending()
		if err := b.send(ctx, ps, add, remove); err != nil {
			return err
		}
	}
}

// pending takes what there is to write.
func (b *hub) pending() (add, remove []string) {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	remove, b.unwanted = b.unwanted, nil
	for _, name := range remove {
		b.unsubscribing[name]++
	}
	for name, ch := range b.channels {
		if !ch.sent {
			ch.sent = true
			b.subscribing[name]++
			add = append(add, name)
		}
	}
	return add, remove
}

func (b *hub) send(ctx context.Context, ps *redis.PubSub, add, remove []string) error {
	ctx, cancel := context.WithTimeout(ctx, hubCommand)
	defer cancel()
	if !b.key.sharded {
		if len(remove) > 0 {
			if err := ps.Unsubscribe(ctx, remove...); err != nil {
				return err
			}
		}
		if len(add) > 0 {
			return ps.Subscribe(ctx, add...)
		}
		return nil
	}
	for _, name := range remove { // one by one: see hub
		if err := ps.SUnsubscribe(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range add {
		if err := ps.SSubscribe(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

var errSilent = errors.New("goredis: the subscription's connection is silent")

// read receives until the connection fails.
func (b *hub) read(ctx context.Context, ps *redis.PubSub) error {
	pinged := false
	for {
		msg, err := ps.ReceiveTimeout(ctx, hubPing)
		if err != nil {
			ne, ok := errors.AsType[net.Error](err)
			if ctx.Err() != nil || !ok || !ne.Timeout() || isDial(err) {
				return err
			}
			if pinged {
				return errSilent
			}
			pinged = true
			ping, cancel := context.WithTimeout(ctx, hubCommand)
			err = ps.Ping(ping)
			cancel()
			if err != nil {
				return err
			}
			continue
		}
		pinged = false
		switch msg := msg.(type) {
		case *redis.Subscription:
			if err := b.confirmed(msg); err != nil {
				return err
			}
		case *redis.Message:
			b.hubs.mu.Lock()
			ch := b.channels[msg.Channel]
			b.hubs.mu.Unlock()
			if ch != nil {
				b.hubs.deliver(ch, msg.Payload, false)
			}
		}
	}
}

func isDial(err error) bool {
	oe, ok := errors.AsType[*net.OpError](err)
	return ok && oe.Op == "dial"
}

// answered notes the server's answer to a command about channel. It reports
// whether one was outstanding and whether it was the last.
func answered(outstanding map[string]int, channel string) (asked, last bool) {
	n := outstanding[channel]
	if n <= 1 {
		delete(outstanding, channel)
	} else {
		outstanding[channel] = n - 1
	}
	return n > 0, n <= 1
}

// confirmed handles the server's word on a subscription.
func (b *hub) confirmed(s *redis.Subscription) error {
	b.hubs.mu.Lock()
	defer b.hubs.mu.Unlock()
	switch s.Kind {
	case "subscribe", "ssubscribe":
		_, last := answered(b.subscribing, s.Channel)
		ch := b.channels[s.Channel]
		if ch == nil || !ch.sent || !last {
			return nil
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
	case "sunsubscribe":
		if asked, _ := answered(b.unsubscribing, s.Channel); !asked && b.channels[s.Channel] != nil {
			return redoubt.ServerError("MOVED the server ended the subscription: the slot has moved")
		}
	}
	return nil
}
