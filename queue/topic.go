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

// A Topic gives each message to several subscribers. Each subscriber has its own queue,
// with its own attempts and dead messages, and may have many consumers. All methods may
// be called by many goroutines at once.
type Topic[T any] struct{ q *Queue[T] }

// NewTopic returns a Topic that puts into queues with q's client and options.
func NewTopic[T any](q *Queue[T]) *Topic[T] { return &Topic[T]{q} }

// QueueName returns the name of a subscriber's queue, for [Queue.Run].
func (*Topic[T]) QueueName(topic, subscriber string) string { return topic + "/" + subscriber }

// Subscribe gives a subscriber all messages that are put from now on. It may be
// repeated. A subscriber's name must not contain "/".
func (t *Topic[T]) Subscribe(ctx context.Context, topic, subscriber string) error {
	if strings.Contains(subscriber, "/") { // else "b/c" of topic "a" would be "c" of "a/b"
		return fmt.Errorf("queue: subscriber %q has a / in its name", subscriber)
	}
	if _, err := wire.KeysOf(t.q.client, t.QueueName(topic, subscriber)); err != nil {
		return err
	}
	return t.registry(ctx, topic, "SADD", subscriber)
}

// Unsubscribe ends a subscription. The messages in the subscriber's queue stay: see
// [Queue.RemovePending].
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

// Subscribers returns the names of all subscribers, sorted.
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

// topicUnique is how long a repeated put is recognized.
const topicUnique = time.Hour

// Put puts a message for each subscriber. It returns the message's ID, which is the same
// in all queues, and the number of subscribers. It costs one round trip to read the
// subscribers, and one to each server of a cluster.
//
// Put is not atomic, because the queues may be on several servers: after an error some
// subscribers may have the message. Repeated with the same ID within an hour, it puts the
// message only where it is missing. So use an ID of your own and repeat until it
// succeeds.
func (t *Topic[T]) Put(ctx context.Context, topic string, r Request[T]) (id string, n int, err error) {
	if r.ID == "" {
		r.ID = wire.NewID()
	}
	if r.Unique == "" {
		r.Unique, r.UniqueFor = "topic "+wire.ShortHash(r.ID), topicUnique // hashed, because an ID may be as long as a key
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
		keys, err := wire.KeysOf(t.q.client, t.QueueName(topic, s))
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
