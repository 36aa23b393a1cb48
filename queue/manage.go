package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/pages"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

// Cancel removes one message from the queue called name and returns the state that it
// had: [StatePending], [StateRunning], [StateDead] or [StateAbsent]. The context of a
// running message's handler ends within a sixth of the lease, and the handler's result is
// ignored; the next message of the group may start before. A dead message stays: see
// [Queue.RemoveDead].
func (q *Queue[T]) Cancel(ctx context.Context, name, id string) (State, error) {
	states, err := q.CancelMany(ctx, name, []string{id})
	if err != nil {
		return "", err
	}
	return states[0], nil
}

// CancelMany cancels messages as [Queue.Cancel] does and returns the state that each
// had. Before an error it returns the states of the messages that it reached; it may
// have removed others.
//
// It costs one round trip for each 1000, and more for large messages, or to find one
// among more than 4,000 that are running or wait in one group.
func (q *Queue[T]) CancelMany(ctx context.Context, name string, ids []string) ([]State, error) {
	keys, err := q.keysFor(name, ids)
	if err != nil {
		return nil, err
	}
	return wire.Cancel(ctx, q.client, keys, ids...)
}

// Requeue resets the attempts of dead messages, makes them ready and returns how many
// were dead. A message waits again for the messages of its [Request.After] that the queue still has. After an error it
// may have requeued more. It costs one round trip for each 1000, and more for large messages.
func (q *Queue[T]) Requeue(ctx context.Context, name string, ids ...string) (n int, err error) {
	keys, err := q.keysFor(name, ids)
	if err != nil {
		return 0, err
	}
	return q.requeue(ctx, keys, ids)
}

func (q *Queue[T]) requeue(ctx context.Context, keys wire.Keys, ids []string) (n int, err error) {
	dead, err := wire.Requeue(ctx, q.client, keys, ids...)
	return countOf(dead, true), err
}

// RequeueAll requeues every dead message and returns how many there were, in two round
// trips for each 1000. It may requeue messages that die meanwhile.
func (q *Queue[T]) RequeueAll(ctx context.Context, name string) (n int, err error) {
	return q.eachDead(ctx, name, q.requeue)
}

// RemoveDead removes dead messages and returns how many were dead. After an error it
// may have removed more. It costs one round trip for each 1000, and more for large
// messages.
func (q *Queue[T]) RemoveDead(ctx context.Context, name string, ids ...string) (n int, err error) {
	keys, err := q.keysFor(name, ids)
	if err != nil {
		return 0, err
	}
	return q.removeDead(ctx, keys, ids)
}

func (q *Queue[T]) removeDead(ctx context.Context, keys wire.Keys, ids []string) (n int, err error) {
	states, err := wire.Delete(ctx, q.client, keys, ids...)
	return countOf(states, StateDead), err
}

// RemoveAllDead removes every dead message and returns how many there were, in two
// round trips for each 1000.
func (q *Queue[T]) RemoveAllDead(ctx context.Context, name string) (n int, err error) {
	return q.eachDead(ctx, name, q.removeDead)
}

func countOf[V comparable](list []V, want V) (n int) {
	for _, v := range list {
		if v == want {
			n++
		}
	}
	return n
}

// eachDead calls f, which takes messages out of the dead ones, until it has seen as
// many as were dead at the beginning: messages that die again must not keep it busy for
// ever. It doesn't check the IDs: another program may have stored an invalid one.
func (q *Queue[T]) eachDead(ctx context.Context, name string, f func(ctx context.Context, keys wire.Keys, ids []string) (int, error)) (n int, err error) {
	keys, err := wire.KeysOf(q.client, name)
	if err != nil {
		return 0, err
	}
	for seen, all := 0, 1; seen < all; {
		list, dead, err := q.page(ctx, name, StateDead, 0, wire.MaxSettle)
		if err != nil || len(list) == 0 {
			return n, err
		}
		if seen == 0 {
			all = dead
		}
		ids := make([]string, len(list))
		for i := range list {
			ids[i] = list[i].ID
		}
		changed, err := f(ctx, keys, ids)
		n += changed
		if err != nil {
			return n, err
		}
		seen += len(ids)
	}
	return n, nil
}

// RemovePending removes all messages that are ready, due, waiting or blocked, and returns how
// many there were, in one round trip for each 1000. Running and dead messages stay.
func (q *Queue[T]) RemovePending(ctx context.Context, name string) (n int, err error) {
	keys, err := wire.KeysOf(q.client, name)
	if err != nil {
		return 0, err
	}
	for skip, more := 0, true; more; {
		var removed int
		if removed, skip, more, err = wire.ReadDrain(q.client.Do(ctx, wire.DrainCmd(keys, wire.MaxSettle, skip))); err != nil {
			return n, err
		}
		n += removed
	}
	return n, nil
}

// Pause stops all consumers from taking messages of a queue, until [Queue.Resume].
// Running handlers go on, and messages can be put.
func (q *Queue[T]) Pause(ctx context.Context, name string) error {
	return q.simple(ctx, name, func(k wire.Keys) (redoubt.Cmd, error) { return wire.PauseCmd(k), nil })
}

// Resume ends a pause.
func (q *Queue[T]) Resume(ctx context.Context, name string) error {
	return q.simple(ctx, name, func(k wire.Keys) (redoubt.Cmd, error) { return wire.ResumeCmd(k), nil })
}

// Limit sets limits that apply to all consumers of a queue together, until the next
// call. They stay when the queue is empty; the zero value removes them.
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

// Info reads how many messages a queue has in each state, and its settings.
func (q *Queue[T]) Info(ctx context.Context, name string) (Info, error) {
	keys, err := wire.KeysOf(q.client, name)
	if err != nil {
		return Info{}, err
	}
	s, err := wire.ReadStats(q.client.Do(ctx, wire.StatsCmd(keys)))
	return info(name, s), err
}

// MessageInfo reads one message. Its State is [StateAbsent] when the queue does not have
// it, and [StateDone] while its result is kept. For a running message it searches all
// leases, in several round trips when there are more than 4,000.
func (q *Queue[T]) MessageInfo(ctx context.Context, name, id string) (MessageInfo, error) {
	keys, err := q.keysFor(name, []string{id})
	if err != nil {
		return MessageInfo{}, err
	}
	m, err := wire.Find(ctx, q.client, keys, id)
	return messageInfo(m), err
}

// Value decodes the payload of m.
func (q *Queue[T]) Value(m MessageInfo) (v T, err error) {
	if err = wire.ErrEnvelope; !m.Unreadable {
		err = q.opts.Codec.Decode(m.Payload, &v)
	}
	if err != nil {
		return v, fmt.Errorf("queue: decode message %s: %w", m.ID, err)
	}
	return v, nil
}

// Messages iterates over the messages in one state, [StateReady], [StateDue],
// [StateRunning], [StateDead] or [StateBlocked], in the order in which they are due or died, in one
// round trip for each 100. An error ends the loop. It may miss messages that come or go
// meanwhile, or return one twice.
func (q *Queue[T]) Messages(ctx context.Context, name string, state State) iter.Seq2[MessageInfo, error] {
	return func(yield func(MessageInfo, error) bool) {
		for from := 0; ; {
			list, _, err := q.page(ctx, name, state, from, 100)
			if err != nil {
				yield(MessageInfo{}, err)
				return
			}
			for _, m := range list {
				if !yield(messageInfo(m), nil) {
					return
				}
			}
			if from += len(list); len(list) == 0 {
				return
			}
		}
	}
}

func (q *Queue[T]) page(ctx context.Context, name string, state State, from, count int) ([]wire.MessageInfo, int, error) {
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

// keysFor returns the keys of a queue, and an error if an id is invalid.
func (q *Queue[T]) keysFor(name string, ids []string) (wire.Keys, error) {
	keys, err := wire.KeysOf(q.client, name)
	for _, id := range ids {
		if err == nil {
			err = wire.CheckID(id)
		}
	}
	return keys, err
}

// List iterates over the queues that have messages and whose names match, a pattern like
// that of Redis' KEYS; an empty one matches all. An error ends the loop.
//
// It is for administration: it scans every key of the server, or of all primaries of a
// cluster, in steps that each block the server for less than a millisecond. It costs a
// round trip for about 1,000 keys, and another if there are queues among them. It may
// miss a queue that comes or goes meanwhile, or return one twice: see
// [redoubt.Client.Names].
func (q *Queue[T]) List(ctx context.Context, match string) iter.Seq2[Info, error] {
	return pages.All(func(cursor string) ([]Info, string, error) {
		found, next, err := wire.StatsPage(ctx, q.client, match, cursor)
		if err != nil {
			return nil, "", err
		}
		infos := make([]Info, len(found))
		for i, l := range found {
			infos[i] = info(l.Name, l.Info)
		}
		return infos, next, nil
	})
}

// CheckEviction returns an error that matches [ErrEviction] when the server that stores
// the queue called name may evict keys. [Queue.Run] does this when it starts and reports
// the error to [Options.OnEvent].
func (q *Queue[T]) CheckEviction(ctx context.Context, name string) error {
	keys, err := wire.KeysOf(q.client, name)
	if err != nil {
		return err
	}
	return checkEviction(ctx, q.client, keys)
}

func checkEviction(ctx context.Context, client *redoubt.Client, keys wire.Keys) error {
	info, err := client.Do(ctx, redoubt.Cmd{Name: "INFO", Args: []string{"memory"}, At: keys.Wake(), Flags: redoubt.ReadOnly}).Text()
	if err != nil {
		if _, refused := errors.AsType[redoubt.ServerError](err); refused {
			return nil // the server hides its settings
		}
		return err
	}
	for line := range strings.Lines(info) {
		policy, found := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:")
		if found && policy != "noeviction" {
			return fmt.Errorf("%w: its maxmemory-policy is %s; want noeviction", ErrEviction, policy)
		}
	}
	return nil
}
