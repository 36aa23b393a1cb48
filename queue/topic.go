package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// A Topic gives each message to several subscribers, which work at their own pace:
// each has a queue of its own, and so its own attempts and dead letters, and may
// have many consumers. All methods may be called by many goroutines at once.
type Topic[T any] struct{ q *Queue[T] }

// NewTopic returns a Topic whose queues are of q's kind.
func NewTopic[T any](q *Queue[T]) *Topic[T] { return &Topic[T]{q} }

// Queue is the name of a subscriber's queue, which [Queue.Run] works on.
func (*Topic[T]) Queue(topic, subscriber string) string { return topic + "/" + subscriber }

// Subscribe makes a subscriber get what is put from now on. It may be repeated. A
// subscriber's name has no "/" in it.
func (t *Topic[T]) Subscribe(ctx context.Context, topic, subscriber string) error {
	if strings.Contains(subscriber, "/") { // or "b/c" of "a" would be "c" of "a/b"
		return fmt.Errorf("queue: subscriber %q has a / in its name", subscriber)
	}
	if _, err := wire.KeysOf(t.q.client, t.Queue(topic, subscriber)); err != nil {
		return err
	}
	return t.registry(ctx, topic, "SADD", subscriber)
}

// Unsubscribe ends it. What is in the subscriber's queue stays: see [Queue.Drain].
func (t *Topic[T]) Unsubscribe(ctx context.Context, topic, subscriber string) error {
	return t.registry(ctx, topic, "SREM", subscriber)
}

func (t *Topic[T]) registry(ctx context.Context, topic, command, subscriber string) error {
	key, err := t.q.client.Key(topic, "queue:topic")
	if err != nil {
		return err
	}
	if subscriber == "" {
		return errors.New("queue: the subscriber's name is empty")
	}
	return t.q.client.Do(ctx, redoubt.Cmd{Name: command, Keys: []string{key}, Args: []string{subscriber}, Flags: redoubt.Idempotent}).Err
}

// Subscribers returns who is subscribed, sorted.
func (t *Topic[T]) Subscribers(ctx context.Context, topic string) ([]string, error) {
	key, err := t.q.client.Key(topic, "queue:topic")
	if err != nil {
		return nil, err
	}
	members, err := t.q.client.Do(ctx, redoubt.Cmd{Name: "SMEMBERS", Keys: []string{key}, Flags: redoubt.ReadOnly}).Array()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(members))
	for i, m := range members {
		names[i], _ = m.(string)
	}
	slices.Sort(names)
	return names, nil
}

// topicUnique is for how long a put that is repeated puts nothing twice.
const topicUnique = time.Hour

// Put puts a message for each subscriber and returns its id, which is the same in
// all their queues, and how many there are. One round trip to learn who, and one to
// each server of a cluster.
//
// The queues may be on several servers, so it is not one step: after an error some
// may have the message. Repeated with the same ID within an hour it gives it to the
// others only; so have an ID of your own, and repeat until there is no error.
func (t *Topic[T]) Put(ctx context.Context, topic string, r Request[T]) (id string, n int, err error) {
	if r.ID == "" {
		r.ID = wire.NewID()
	}
	if r.Unique == "" {
		r.Unique, r.UniqueFor = "topic "+wire.ShortHash(r.ID), topicUnique // the ID itself may be as long as a key
	}
	subscribers, err := t.Subscribers(ctx, topic)
	if err != nil {
		return r.ID, 0, err
	}
	messages, err := t.q.messages(ctx, []Request[T]{r})
	if err != nil {
		return r.ID, 0, err
	}
	cmds := make([]redoubt.Cmd, len(subscribers))
	for i, s := range subscribers {
		keys, err := wire.KeysOf(t.q.client, t.Queue(topic, s))
		if err == nil {
			cmds[i], err = wire.PutCmd(keys, messages)
		}
		if err != nil {
			return r.ID, 0, err
		}
	}
	var errs []error
	for i, reply := range t.q.client.Pipeline(ctx, cmds) {
		if _, err := wire.ReadPut(reply, messages); err != nil {
			errs = append(errs, fmt.Errorf("queue: subscriber %q: %w", subscribers[i], err))
		}
	}
	return r.ID, len(subscribers), errors.Join(errs...)
}
