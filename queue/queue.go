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
	// ErrLeaseLost is the cause of a handler's context when the handler loses its
	// message: the message was cancelled, or its lease ran out because the process or
	// the network stood still. Another consumer may have the message by now, and what
	// the handler returns is ignored.
	ErrLeaseLost = errors.New("queue: the lease is lost")

	// ErrShutdown is the cause of a handler's context when the consumer stops and its
	// grace period is over. The message is handed back.
	ErrShutdown = errors.New("queue: the consumer stops")

	// ErrEviction is matched when the server may evict keys: its maxmemory-policy is
	// not noeviction. It can then drop messages, leases and whole queues silently.
	ErrEviction = errors.New("queue: the server may evict messages")
)

const (
	// DefaultLease is the default of [Options.Lease].
	DefaultLease = 30 * time.Second
	// MinLease and MaxLease bound a lease.
	MinLease = 100 * time.Millisecond
	MaxLease = 24 * time.Hour
	// DefaultAttempts is the default of [Options.Attempts].
	DefaultAttempts = 10
)

// Options configure a [Queue]. The zero value is ready to use.
type Options struct {
	// Codec turns values into payloads and back. Defaults to [JSON].
	Codec Codec
	// Lease is how long a message belongs to a consumer that does not extend it. It is
	// the delay that a dead consumer causes; [Queue.Run] extends leases while handlers
	// run. From 100 ms to a day. Defaults to 30 s.
	Lease time.Duration
	// Attempts is how often a message may fail before it is dead, from 1 to 65535 or
	// [Unlimited]. Defaults to 10.
	Attempts int
	// Backoff is the time from a failure to the next attempt. Defaults to
	// Exponential(time.Second, 10*time.Minute).
	Backoff Backoff
	// Keep is how long the result of a done message is kept. Defaults to 0: not at all.
	Keep time.Duration
	// Headers returns headers for every message that is put, like the context of a
	// trace. May be nil.
	Headers func(ctx context.Context) map[string]string
	// OnEvent is called for each [Event] of a consumer or scheduler, from many
	// goroutines at once, and must not block. [Log] makes one. May be nil.
	OnEvent func(ctx context.Context, e Event)
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
	if o.OnEvent == nil {
		o.OnEvent = func(context.Context, Event) {}
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

// A Queue works on named queues whose messages have values of type T. Make one per type
// and use it for all names. Most callers need only [Queue.Put] and [Queue.Run].
//
// All methods may be called by many goroutines at once. A method costs one round trip
// unless it says otherwise. After an error that matches redoubt.ErrUnknownOutcome the
// call may have had its effect. A Queue keeps no state between calls and need not be
// closed.
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
	opts.OnEvent = reporting(client, opts.OnEvent)
	return &Queue[T]{client: client, opts: opts}, nil
}

// A Request is one message with its settings.
type Request[T any] struct {
	// Value is the content of the message.
	Value T
	// ID names the message, for example the number of an order: at most [MaxID] bytes.
	// A repeated put with the same ID does nothing while the message is in the queue; it
	// replaces a dead one. Defaults to a unique ID.
	ID string
	// Delay is the time until the message is due; At is when it is due, by the server's
	// clock. Set at most one. Without either it is due now.
	Delay time.Duration
	At    time.Time
	// Attempts is how often it may fail before it is dead. Defaults to
	// [Options.Attempts].
	Attempts int
	// Unique drops the message if one with the same key was put within the last
	// UniqueFor, even if that one is done or cancelled. At most [MaxID] bytes.
	Unique    string
	UniqueFor time.Duration
	// Lane is its priority. Defaults to [Normal].
	Lane Lane
	// Group makes the messages of a group run one at a time, in the order in which they
	// became due. A failed message keeps its turn until it is done or dead. At most
	// [MaxID] bytes. Empty: no group.
	Group string
	// Headers travel with the value, at most 65535 bytes.
	Headers map[string]string
	// After are the IDs of messages of the same queue that must be done before this one:
	// at most [MaxAfter], and as many for all requests of one call. A message that is not in
	// the queue counts as done, so put the others first, or in the same call before it. The
	// Delay begins when the last of them is done.
	//
	// If one of them dies, is cancelled or is removed, this message dies, and so do the ones
	// after it. IgnoreFailure makes it ready then.
	After         []string
	IgnoreFailure bool
}

// Put puts v into the queue called name and returns the message's ID. Once Put has
// returned, v reaches a handler at least once. Concurrent calls share a round trip.
//
// When the error matches redoubt.ErrUnknownOutcome the message may be in the queue. To
// repeat a put safely, call [Queue.PutRequest] with an ID of your own.
func (q *Queue[T]) Put(ctx context.Context, name string, v T) (id string, err error) {
	placed, err := q.PutRequest(ctx, name, Request[T]{Value: v})
	return placed.ID, err
}

// PutRequest puts one message as [Queue.Put] does. It may be repeated with the same
// ID until it succeeds.
func (q *Queue[T]) PutRequest(ctx context.Context, name string, r Request[T]) (PutResult, error) {
	results, err := q.PutMany(ctx, name, []Request[T]{r})
	if err != nil {
		return PutResult{}, err
	}
	return results[0], nil
}

// PutMany puts at most [MaxBatch] messages atomically: all or, after an error, none. Its
// results are in the order of requests. The error matches [ErrTooLarge] if several
// messages have more than [MaxBatchBytes] together.
func (q *Queue[T]) PutMany(ctx context.Context, name string, requests []Request[T]) ([]PutResult, error) {
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
	results := make([]PutResult, len(put))
	for i := range put {
		results[i] = PutResult(put[i])
		if requests[i].ID == "" && results[i].Status == Exists {
			results[i].Status = Added // the command was sent again after a lost reply
		}
	}
	return results, err
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
			After: r.After, IgnoreFailure: r.IgnoreFailure,
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
