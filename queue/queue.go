package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/queue"
)

var (
	// ErrLeaseLost is the cause of the end of a handler's context when its message
	// is not its own any more: it was cancelled, or the lease ran out because the
	// process or the network stood still. Another consumer may have it by now, and
	// what the handler returns is ignored.
	ErrLeaseLost = errors.New("queue: the lease is lost")

	// ErrShutdown is the cause of the end of a handler's context when the grace
	// period of a consumer that stops is over. The message is handed back.
	ErrShutdown = errors.New("queue: the consumer stops")

	// ErrEviction is matched by what is reported when the server may evict keys:
	// its maxmemory-policy is not noeviction. Messages, leases and whole queues can
	// then be gone without a trace.
	ErrEviction = errors.New("queue: the server may evict messages")
)

const (
	// DefaultLease is the lease of a [Queue] whose options name none.
	DefaultLease = 30 * time.Second
	// MinLease and MaxLease bound a lease.
	MinLease = 100 * time.Millisecond
	MaxLease = 24 * time.Hour
	// DefaultAttempts is how often a message may fail unless it says otherwise.
	DefaultAttempts = 10
)

// Options configure a [Queue]. The zero value is ready to use.
type Options struct {
	// Codec turns values into payloads and back. Defaults to [JSON].
	Codec Codec
	// Lease is how long a message belongs to a consumer that does not extend it,
	// as [Queue.Run] does by itself: what a dead consumer costs. From 100 ms to a
	// day. Defaults to 30 s.
	Lease time.Duration
	// Attempts is how often a message may fail until it is dead, from 1 to 65535 or
	// [Unlimited]. Defaults to 10.
	Attempts int
	// Backoff is the time from a failure to the next attempt. Defaults to
	// Exponential(time.Second, 10*time.Minute).
	Backoff Backoff
	// Keep is for how long the result of a message is kept after it is done.
	// Defaults to 0: not at all.
	Keep time.Duration
	// Headers returns what every message that is put carries along, like the
	// context of a trace. May be nil.
	Headers func(ctx context.Context) map[string]string
	// Events is called with what consumers do, from many goroutines at once, and
	// must not block: see [Log]. May be nil.
	Events func(ctx context.Context, e Event)
}

func (o *Options) setDefaults() error {
	if o.Codec == nil {
		o.Codec = JSON{}
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Attempts == 0 {
		o.Attempts = DefaultAttempts
	}
	if o.Backoff == nil {
		o.Backoff = Exponential(time.Second, 10*time.Minute)
	}
	if o.Events == nil {
		o.Events = func(context.Context, Event) {}
	}
	errs := []error{checkLease(o.Lease), wire.CheckTime("keep", o.Keep, 0)}
	if o.Attempts != Unlimited && (o.Attempts < 1 || o.Attempts > MaxAttempts) {
		errs = append(errs, fmt.Errorf("queue: attempts is %d; want 1 to %d, or Unlimited", o.Attempts, MaxAttempts))
	}
	return errors.Join(errs...)
}

func checkLease(lease time.Duration) error {
	if lease < MinLease || lease > MaxLease {
		return fmt.Errorf("queue: lease is %v; want %v to %v", lease, MinLease, MaxLease)
	}
	return nil
}

// A Queue is a family of queues on a server whose messages are of one type, each
// with a name. Make one and use it for all of them.
//
// [Queue.Put] and [Queue.Run] are what most callers need. All methods may be called
// by many goroutines at once, each costs one round trip unless it says otherwise,
// and an error that matches redoubt.ErrUnknownOutcome says that the call may have
// had its effect. A Queue keeps nothing between calls and need not be closed.
type Queue[T any] struct {
	client *redoubt.Client
	opts   Options
}

// New returns a Queue on client. It sends nothing.
func New[T any](client *redoubt.Client, opts Options) (*Queue[T], error) {
	err := opts.setDefaults()
	if client == nil {
		err = errors.Join(errors.New("queue: client is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	return &Queue[T]{client: client, opts: opts}, nil
}

// A Request is one message with settings of its own.
type Request[T any] struct {
	// Value is what the message says.
	Value T
	// ID names the message, the number of the order for instance: at most [MaxID]
	// bytes. A put that is repeated with the same ID does nothing while the message
	// is in the queue, unless it is dead: then the new one takes its place. Defaults
	// to one that no other message has.
	ID string
	// Delay is the time until the message is due. At is when it is, by the server's
	// clock. Not both; without one it is due now.
	Delay time.Duration
	At    time.Time
	// Attempts is how often it may fail until it is dead. Defaults to that of the
	// Queue.
	Attempts int
	// Unique drops the message when one with the same key was put in the last
	// UniqueFor, even if that is done by now, or cancelled. At most [MaxID] bytes.
	Unique    string
	UniqueFor time.Duration
	// Lane is its priority. Defaults to [Normal].
	Lane Lane
	// Group lets only one message of a group be at work at a time, in the order in
	// which they became due; one that fails keeps its turn until it is done or dead.
	// At most [MaxID] bytes. Empty: none.
	Group string
	// Headers travel with the value, at most 65535 bytes.
	Headers map[string]string
}

// Put puts v into the queue called name and returns the message's id: once Put has
// returned, v reaches a handler at least once. It costs one round trip, which
// concurrent calls share.
//
// When the error matches redoubt.ErrUnknownOutcome the message may be in the queue.
// To put it again without doing it twice, use an ID of your own with
// [Queue.PutRequest].
func (q *Queue[T]) Put(ctx context.Context, name string, v T) (id string, err error) {
	placed, err := q.PutRequest(ctx, name, Request[T]{Value: v})
	return placed.ID, err
}

// PutRequest puts one message as [Queue.Put] does. It may be repeated with the same
// ID until it succeeds.
func (q *Queue[T]) PutRequest(ctx context.Context, name string, r Request[T]) (Placed, error) {
	placed, err := q.PutMany(ctx, name, []Request[T]{r})
	if err != nil {
		return Placed{}, err
	}
	return placed[0], nil
}

// PutMany puts at most [MaxBatch] messages, with at most [MaxBatchBytes] together unless it is
// one, in one step and says what became of each: all are in the queue then, or none. More gives
// an error that matches [ErrTooLarge].
func (q *Queue[T]) PutMany(ctx context.Context, name string, requests []Request[T]) ([]Placed, error) {
	keys, err := wire.KeysOf(q.client, name)
	if err != nil {
		return nil, err
	}
	messages, err := q.messages(ctx, requests)
	if err != nil {
		return nil, err
	}
	cmd, err := wire.PutCmd(keys, messages)
	if err != nil {
		return nil, err
	}
	put, err := wire.ReadPut(q.client.Do(ctx, cmd), messages)
	placed := make([]Placed, len(put))
	for i := range put {
		placed[i] = Placed(put[i])
		if requests[i].ID == "" && placed[i].Status == Exists {
			placed[i].Status = Added // the command was sent again after a lost reply
		}
	}
	return placed, err
}

func (q *Queue[T]) messages(ctx context.Context, requests []Request[T]) ([]wire.Message, error) {
	var shared map[string]string
	if q.opts.Headers != nil {
		shared = q.opts.Headers(ctx)
	}
	messages := make([]wire.Message, len(requests))
	for i := range requests {
		r := &requests[i]
		payload, err := q.opts.Codec.Encode(r.Value)
		if err != nil {
			return nil, fmt.Errorf("queue: encode message %d: %w", i, err)
		}
		messages[i] = wire.Message{
			ID: r.ID, Payload: payload, Delay: r.Delay, At: r.At, Attempts: r.Attempts,
			Unique: r.Unique, UniqueFor: r.UniqueFor, Lane: r.Lane, Group: r.Group, Headers: r.Headers,
		}
		m := &messages[i]
		if m.ID == "" {
			m.ID = wire.NewID()
		}
		if m.Attempts == 0 {
			m.Attempts = q.opts.Attempts
		}
		if len(shared) > 0 {
			m.Headers = make(map[string]string, len(shared)+len(r.Headers))
			maps.Copy(m.Headers, shared)
			maps.Copy(m.Headers, r.Headers)
		}
	}
	return messages, nil
}
