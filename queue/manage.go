package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// Cancel removes messages from the queue called name and says what each was. One
// that is running has its handler's context ended within a sixth of its lease, and
// what the handler returns is ignored. A dead one is left alone: see [Queue.Delete].
//
// One round trip for each 1000, and more where they are large, or one is to be looked for
// among more than 4,000 that are running or wait in one group. After an error those are removed
// that it says something of, and others may be.
func (q *Queue[T]) Cancel(ctx context.Context, name string, ids ...string) ([]Was, error) {
	keys, err := wire.KeysOf(q.client, name)
	if err != nil {
		return nil, err
	}
	return wire.Cancel(ctx, q.client, keys, ids...)
}

// Delete removes dead messages and says what each was. One round trip for each
// 1000, and more where they are large.
func (q *Queue[T]) Delete(ctx context.Context, name string, ids ...string) ([]Was, error) {
	keys, err := wire.KeysOf(q.client, name)
	if err != nil {
		return nil, err
	}
	return wire.Delete(ctx, q.client, keys, ids...)
}

// Requeue gives dead messages all their attempts again and says which were dead.
// One round trip for each 1000, and more where they are large.
func (q *Queue[T]) Requeue(ctx context.Context, name string, ids ...string) ([]bool, error) {
	keys, err := wire.KeysOf(q.client, name)
	if err != nil {
		return nil, err
	}
	return wire.Requeue(ctx, q.client, keys, ids...)
}

// RequeueAll requeues every dead message and returns how many there were, two round
// trips for each 1000. Those that die meanwhile may be requeued too.
func (q *Queue[T]) RequeueAll(ctx context.Context, name string) (n int, err error) {
	return q.eachDead(ctx, name, func(ids []string) error {
		_, err := q.Requeue(ctx, name, ids...)
		return err
	})
}

// DeleteAll deletes every dead message and returns how many there were, two round
// trips for each 1000.
func (q *Queue[T]) DeleteAll(ctx context.Context, name string) (n int, err error) {
	return q.eachDead(ctx, name, func(ids []string) error {
		_, err := q.Delete(ctx, name, ids...)
		return err
	})
}

// eachDead calls f, which takes them away, for all dead messages, and for as many
// as there were when it began: those that come back to die do not keep it for ever.
func (q *Queue[T]) eachDead(ctx context.Context, name string, f func(ids []string) error) (n int, err error) {
	for all := 1; n < all; {
		list, dead, err := q.page(ctx, name, Buried, 0, MaxSettle)
		if err != nil || len(list) == 0 {
			return n, err
		}
		if n == 0 {
			all = dead
		}
		ids := make([]string, len(list))
		for i := range list {
			ids[i] = list[i].ID
		}
		if err := f(ids); err != nil {
			return n, err
		}
		n += len(ids)
	}
	return n, nil
}

// Drain removes all messages that are ready, due or waiting, and returns how many
// there were, one round trip for each 1000. Those at work and the dead are left.
func (q *Queue[T]) Drain(ctx context.Context, name string) (n int, err error) {
	keys, err := wire.KeysOf(q.client, name)
	if err != nil {
		return 0, err
	}
	for skip, more := 0, true; more; {
		var removed int
		if removed, skip, more, err = wire.ReadDrain(q.client.Do(ctx, wire.DrainCmd(keys, MaxSettle, skip))); err != nil {
			return n, err
		}
		n += removed
	}
	return n, nil
}

// Pause lets nothing more be taken from a queue, by any consumer, until
// [Queue.Resume]. What is at work goes on, and messages can be put.
func (q *Queue[T]) Pause(ctx context.Context, name string) error {
	return q.simple(ctx, name, func(k wire.Keys) (redoubt.Cmd, error) { return wire.PauseCmd(k), nil })
}

// Resume ends a pause.
func (q *Queue[T]) Resume(ctx context.Context, name string) error {
	return q.simple(ctx, name, func(k wire.Keys) (redoubt.Cmd, error) { return wire.ResumeCmd(k), nil })
}

// Limit sets limits that hold for all consumers of a queue together, until they are
// set again. They stay when the queue is empty; the zero value takes them away.
func (q *Queue[T]) Limit(ctx context.Context, name string, l Limits) error {
	return q.simple(ctx, name, func(k wire.Keys) (redoubt.Cmd, error) { return wire.LimitCmd(k, wire.Limits(l)) })
}

func (q *Queue[T]) simple(ctx context.Context, name string, cmd func(wire.Keys) (redoubt.Cmd, error)) error {
	keys, err := wire.KeysOf(q.client, name)
	if err != nil {
		return err
	}
	c, err := cmd(keys)
	if err != nil {
		return err
	}
	return q.client.Do(ctx, c).Err
}

// Stats counts what is in a queue.
func (q *Queue[T]) Stats(ctx context.Context, name string) (Stats, error) {
	keys, err := wire.KeysOf(q.client, name)
	if err != nil {
		return Stats{}, err
	}
	s, err := wire.ReadStats(q.client.Do(ctx, wire.StatsCmd(keys)))
	return stats(s), err
}

// Find looks at one message. Its State is [None] when it is not there, and [Done]
// while its result is kept. It goes over all leases when the message is at work, in steps where
// there are more than 4,000.
func (q *Queue[T]) Find(ctx context.Context, name, id string) (Listed, error) {
	keys, err := wire.KeysOf(q.client, name)
	if err == nil {
		err = wire.CheckID(id)
	}
	if err != nil {
		return Listed{}, err
	}
	l, err := wire.Find(ctx, q.client, keys, id)
	return listed(l), err
}

// Value decodes what a message says that was looked at.
func (q *Queue[T]) Value(l Listed) (v T, err error) {
	if err = wire.ErrEnvelope; !l.Unreadable {
		err = q.opts.Codec.Decode(l.Payload, &v)
	}
	if err != nil {
		return v, fmt.Errorf("queue: decode message %s: %w", l.ID, err)
	}
	return v, nil
}

// Messages goes over the messages of one state, [Ready], [Due], [Leased] or [Buried], in
// the order in which they are due or died, one round trip for each 100. A loop over
// it ends with the first error. While messages come and go it may miss some and give
// some twice.
func (q *Queue[T]) Messages(ctx context.Context, name string, state State) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		for from := 0; ; {
			list, _, err := q.page(ctx, name, state, from, 100)
			if err != nil {
				yield(Listed{}, err)
				return
			}
			for _, l := range list {
				if !yield(listed(l), nil) {
					return
				}
			}
			if from += len(list); len(list) == 0 {
				return
			}
		}
	}
}

func (q *Queue[T]) page(ctx context.Context, name string, state State, from, count int) ([]wire.Listed, int, error) {
	keys, err := wire.KeysOf(q.client, name)
	if err != nil {
		return nil, 0, err
	}
	cmd, err := wire.MessagesCmd(keys, state, from, count)
	if err != nil {
		return nil, 0, err
	}
	return wire.ReadMessages(q.client.Do(ctx, cmd), state)
}

// Names goes over the queues that have messages and whose names match: a pattern as
// of Redis' KEYS, where an empty one matches all. A loop over it ends with the first
// error.
//
// It is for people, not for programs that run all the time: it looks at every key
// of the server, or of all primaries of a cluster, though in steps that hold nobody
// up. A queue that comes or goes meanwhile may be listed or not, and one may come
// twice: see [redoubt.Client.Names].
func Names(ctx context.Context, client *redoubt.Client, match string) iter.Seq2[string, error] {
	if client == nil {
		return func(yield func(string, error) bool) { yield("", errors.New("queue: client is nil")) }
	}
	return wire.Names(ctx, client, match)
}
