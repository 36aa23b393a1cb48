package goredis

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
)

const hubHome = time.Second // between two looks at whether the server is the master still

// A session is one connection of a hub. One goroutine reads, another writes. The
// connection is given up after any trouble: go-redis would reconnect by itself,
// but with one SSUBSCRIBE for all channels, which a cluster refuses when they
// are of different slots.
type session struct {
	conn *Conn
	hub  *conn.Hub
	ps   *redis.PubSub

	// The requests that the server has not answered, by channel:
	// only the answer to the last SUBSCRIBE confirms one that was stopped and
	// subscribed again, and an answer that nobody waits for is news.
	mu                         sync.Mutex // guards them, and is held while the hub's channels are marked as sent
	subscribing, unsubscribing map[string]int
}

func (c hubClient) Listen(ctx context.Context, b *conn.Hub) error {
	ps, err := c.open(ctx, b)
	if err != nil {
		return err
	}
	defer ps.Close()
	s := &session{conn: c.Conn, hub: b, ps: ps, subscribing: make(map[string]int), unsubscribing: make(map[string]int)}
	b.Begin()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(ctx, func() { _ = ps.Close() }) // unblocks the reader
	defer stop()
	var others sync.WaitGroup
	others.Go(func() { cancel(s.write(ctx)) })
	if c.sentinel {
		others.Go(func() { cancel(s.stays(ctx)) })
	}
	cancel(s.read(ctx))
	others.Wait()
	return context.Cause(ctx)
}

// open returns a subscription without channels.
func (c hubClient) open(ctx context.Context, b *conn.Hub) (*redis.PubSub, error) {
	switch {
	case c.single != nil:
		return c.single.Subscribe(ctx), nil
	case b.Node == "":
		return c.cluster.Subscribe(ctx), nil
	}
	node, err := c.node(ctx, b)
	if err != nil {
		return nil, err
	}
	return node.Subscribe(ctx), nil
}

var errMoved = errors.New("goredis: the node has no slot of these channels any more")

// node returns the client of the hub's node, which is the owner of a channel.
func (c hubClient) node(ctx context.Context, b *conn.Hub) (*redis.Client, error) {
	for _, ch := range b.Channels() {
		node, err := c.cluster.MasterForKey(ctx, ch.Name)
		if err != nil {
			return nil, err
		}
		if node.Options().Addr == b.Node {
			return node, nil
		}
	}
	return nil, errMoved
}

var errElsewhere = errors.New("goredis: the master is another server now")

// stays returns once the subscription is not at the server that gets the commands. When Sentinels have made
// another server the master, the old one keeps its subscribers until it becomes a replica, some ten seconds later.
func (s *session) stays(ctx context.Context) error {
	tick := time.NewTicker(hubHome)
	defer tick.Stop()
	count := redoubt.Cmd{Name: "PUBSUB NUMSUB", Flags: redoubt.ReadOnly}
	if s.hub.Sharded {
		count.Name = "PUBSUB SHARDNUMSUB"
	}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		ch := s.heard(nil)
		if ch == nil {
			continue
		}
		count.Args = []string{ch.Name}
		ask, cancel := context.WithTimeout(ctx, conn.HubCommand)
		r := s.conn.Do(ask, count)
		cancel()
		if _, ok := errors.AsType[redoubt.ServerError](r.Err); ok { // The user may not ask.
			<-ctx.Done()
			return ctx.Err()
		}
		if pair, _ := r.Val.([]any); len(pair) == 2 && pair[1] == int64(0) && s.heard(ch) != nil {
			return errElsewhere
		}
	}
}

// heard returns a channel that the server has confirmed on this connection: want, or any if want is nil. It
// returns nil if there is none.
func (s *session) heard(want *conn.Channel) *conn.Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ch := range s.hub.Channels() {
		if s.hub.Sent(ch) && s.subscribing[ch.Name] == 0 && (want == nil || ch == want) {
			return ch
		}
	}
	return nil
}

// write subscribes what is new and unsubscribes what is unwanted.
func (s *session) write(ctx context.Context) error {
	for {
		select {
		case <-s.hub.Changed():
		case <-ctx.Done():
			return ctx.Err()
		}
		add, remove := s.pending()
		if err := s.send(ctx, add, remove); err != nil {
			return err
		}
	}
}

// pending takes what there is to write.
func (s *session) pending() (add, remove []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	channels, remove := s.hub.Pending()
	for _, name := range remove {
		s.unsubscribing[name]++
	}
	for _, ch := range channels {
		s.subscribing[ch.Name]++
		add = append(add, ch.Name)
	}
	return add, remove
}

func (s *session) send(ctx context.Context, add, remove []string) error {
	ctx, cancel := context.WithTimeout(ctx, conn.HubCommand)
	defer cancel()
	if !s.hub.Sharded {
		if len(remove) > 0 {
			if err := s.ps.Unsubscribe(ctx, remove...); err != nil {
				return err
			}
		}
		if len(add) > 0 {
			return s.ps.Subscribe(ctx, add...)
		}
		return nil
	}
	for _, name := range remove { // one by one: see session
		if err := s.ps.SUnsubscribe(ctx, name); err != nil {
			return err
		}
	}
	for _, name := range add {
		if err := s.ps.SSubscribe(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

var errSilent = errors.New("goredis: the subscription's connection is silent")

// read receives until the connection fails.
func (s *session) read(ctx context.Context) error {
	pinged := false
	for {
		msg, err := s.ps.ReceiveTimeout(ctx, conn.HubPing)
		if err != nil {
			ne, ok := errors.AsType[net.Error](err)
			if ctx.Err() != nil || !ok || !ne.Timeout() || isDial(err) {
				return err
			}
			if pinged {
				return errSilent
			}
			pinged = true
			ping, cancel := context.WithTimeout(ctx, conn.HubCommand)
			err = s.ps.Ping(ping)
			cancel()
			if err != nil {
				return err
			}
			continue
		}
		pinged = false
		switch msg := msg.(type) {
		case *redis.Subscription:
			if err := s.confirmed(msg); err != nil {
				return err
			}
		case *redis.Message:
			s.hub.Deliver(s.hub.Channel(msg.Channel), msg.Payload, false)
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
func (s *session) confirmed(word *redis.Subscription) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.hub.Channel(word.Channel)
	switch word.Kind {
	case "subscribe", "ssubscribe":
		_, last := answered(s.subscribing, word.Channel)
		if last && s.hub.Confirm(ch) {
			s.mu.Unlock()
			s.hub.Deliver(ch, "", true)
			s.mu.Lock()
		}
	case "unsubscribe", "sunsubscribe":
		if asked, _ := answered(s.unsubscribing, word.Channel); !asked && ch != nil && word.Kind == "sunsubscribe" {
			return redoubt.ServerError("MOVED the server ended the subscription: the slot has moved")
		}
	}
	return nil
}
