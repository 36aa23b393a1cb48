package valkeyconn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/conn"
)

// Subscribe listens on a channel: see [redoubt.Subscriber]. It costs one round trip and, for the first
// channel on a server, a connection, which is kept for a second after the last channel was stopped. The
// connection is pinged every three seconds and replaced when there is no answer within three more.
//
// After stop has returned no new call of on begins; one may be under way.
func (c *Conn) Subscribe(ctx context.Context, name string, sharded bool, on func(payload string, lost bool)) (stop func(), err error) {
	if err := conn.Ended(ctx); err != nil {
		return nil, err
	}
	return c.hubs.Subscribe(ctx, name, sharded, on)
}

// A hubClient makes the subscription connections of a Conn.
type hubClient struct{ *Conn }

func (c hubClient) Owner(ctx context.Context, channel string) (string, error) {
	if c.slots == nil {
		return "", nil
	}
	t := c.slots.table.Load()
	if t == nil || t.owner[slotOf(channel)] == nil {
		var err error
		if t, err = c.slots.fresh(ctx); err != nil {
			return "", err
		}
	}
	n := t.owner[slotOf(channel)]
	if n == nil {
		return "", fmt.Errorf("valkeyconn: no primary owns the slot of channel %q", channel)
	}
	return n.addr, nil
}

func (c hubClient) Refresh(ctx context.Context) error {
	_, err := c.slots.fresh(ctx)
	return err
}

func (c hubClient) Final(_ *conn.Hub, err error) error {
	if errors.Is(err, valkey.ErrClosing) && c.client.Mode() == valkey.ClientModeStandalone {
		return err
	}
	return nil
}

// A session is one connection of a hub. One goroutine commands it, and the reader of valkey-go delivers what comes.
type session struct {
	hub *conn.Hub

	mu      sync.Mutex      // guards leaving, and is held while it is made
	leaving map[string]bool // being unsubscribed
}

func (c hubClient) Listen(ctx context.Context, b *conn.Hub) error {
	client, err := c.hubNode(ctx, b)
	if err != nil {
		return err
	}
	s := &session{hub: b}
	dedicated, release := client.Dedicate()
	moved := make(chan struct{})
	end := sync.OnceFunc(func() { close(moved) })
	broken := dedicated.SetPubSubHooks(valkey.PubSubHooks{
		OnMessage: func(m valkey.PubSubMessage) {
			b.Deliver(b.Channel(m.Channel), m.Message, false)
		},
		OnSubscription: func(m valkey.PubSubSubscription) {
			if m.Kind == "sunsubscribe" && s.lost(m.Channel) {
				end()
			}
		},
	})
	defer func() {
		go func() { // closing waits for a silent server
			dedicated.Close()
			release()
		}()
	}()
	b.Begin()

	ping := time.NewTicker(conn.HubPing)
	defer ping.Stop()
	for {
		select {
		case <-b.Changed():
			err = s.update(ctx, dedicated)
		case <-ping.C:
			bounded, cancel := context.WithTimeout(ctx, conn.HubPing)
			err = dedicated.Do(bounded, dedicated.B().Ping().Build()).Error()
			cancel()
		case err = <-broken:
			if err == nil {
				err = errors.New("valkeyconn: the subscription's connection is closed")
			}
		case <-moved:
			err = redoubt.ServerError("MOVED the server ended the subscription: the slot has moved")
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

var errMoved = errors.New("valkeyconn: the node has no slot of these channels any more")

// hubNode returns the client of the hub's node.
func (c hubClient) hubNode(ctx context.Context, b *conn.Hub) (valkey.Client, error) {
	if c.slots == nil {
		return c.client, nil
	}
	t := c.slots.table.Load()
	if t == nil || len(t.nodes) == 0 {
		bounded, cancel := context.WithTimeout(ctx, conn.HubCommand)
		defer cancel()
		var err error
		if t, err = c.slots.fresh(bounded); err != nil {
			return nil, err
		}
	}
	if b.Node == "" {
		n := t.nodes[rand.IntN(len(t.nodes))] //nolint:gosec // any node will do
		if n.client == nil {
			return nil, errMoved
		}
		return n.client, nil
	}
	for _, n := range t.nodes {
		if n.addr == b.Node && n.client != nil {
			return n.client, nil
		}
	}
	return nil, errMoved
}

// lost reports whether the end of a subscription is the server's doing.
func (s *session) lost(channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.leaving[channel] && s.hub.Channel(channel) != nil
}

// update subscribes what is new and unsubscribes what is unwanted.
func (s *session) update(ctx context.Context, client valkey.DedicatedClient) error {
	s.mu.Lock()
	add, remove := s.hub.Pending()
	s.leaving = make(map[string]bool)
	for _, name := range remove {
		s.leaving[name] = true
	}
	s.mu.Unlock()

	// One command a channel: a cluster refuses one for channels of different slots.
	cmds := make([]valkey.Completed, 0, len(add)+len(remove))
	for _, name := range remove {
		if s.hub.Sharded {
			cmds = append(cmds, client.B().Sunsubscribe().Channel(name).Build())
		} else {
			cmds = append(cmds, client.B().Unsubscribe().Channel(name).Build())
		}
	}
	for _, ch := range add {
		if s.hub.Sharded {
			cmds = append(cmds, client.B().Ssubscribe().Channel(ch.Name).Build())
		} else {
			cmds = append(cmds, client.B().Subscribe().Channel(ch.Name).Build())
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, conn.HubCommand)
	defer cancel()
	replies := client.DoMulti(ctx, cmds...)
	for _, r := range replies[:len(remove)] {
		if err := r.NonValkeyError(); err != nil {
			return err
		}
	}
	var trouble error
	for i, r := range replies[len(remove):] {
		if err := s.answered(add[i], r); err != nil {
			trouble = err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = nil
	return trouble
}

// answered handles the server's answer to a SUBSCRIBE. It returns an error that a new connection may mend.
func (s *session) answered(ch *conn.Channel, r valkey.ValkeyResult) error {
	err := r.NonValkeyError()
	if err == nil {
		if m, no := r.ToMessage(); no != nil && !m.IsNil() {
			err = serverError(m)
		}
	}
	if !s.hub.Sent(ch) {
		return nil // stopped meanwhile
	}
	if err != nil {
		if se, ok := errors.AsType[redoubt.ServerError](err); ok && !conn.Transient(se) {
			s.hub.Refuse(ch, se)
			return nil
		}
		return err
	}
	if s.hub.Confirm(ch) {
		s.hub.Deliver(ch, "", true)
	}
	return nil
}
