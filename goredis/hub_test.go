package goredis

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/conn"
)

// A seen is a client that opens no connection.
type seen chan *conn.Hub

func (seen) Owner(context.Context, string) (string, error) { return "", nil }
func (seen) Refresh(context.Context) error                 { return nil }
func (seen) Final(*conn.Hub, error) error                  { return nil }
func (s seen) Listen(ctx context.Context, b *conn.Hub) error {
	s <- b
	<-ctx.Done()
	return ctx.Err()
}

// A connection lives long: what it counts for a channel goes with the last answer about it.
func TestAnswersAreCountedOff(t *testing.T) {
	hub := make(seen)
	hubs := conn.Hubs{Client: hub}
	defer hubs.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = hubs.Subscribe(ctx, "other", false, func(string, bool) {}) }()
	s := &session{hub: <-hub, subscribing: map[string]int{"a": 1}, unsubscribing: map[string]int{"a": 1, "b": 2}}
	for _, word := range []redis.Subscription{{Kind: "subscribe", Channel: "a"}, {Kind: "unsubscribe", Channel: "a"},
		{Kind: "sunsubscribe", Channel: "b"}, {Kind: "unsubscribe", Channel: "b"}} {
		if err := s.confirmed(&word); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.subscribing)+len(s.unsubscribing) > 0 {
		t.Errorf("left to be answered: %v and %v", s.subscribing, s.unsubscribing)
	}
}
