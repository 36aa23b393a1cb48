package redoubt

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
)

// An Observer sees the calls of a [Client] and the events of the primitives on it, for metrics, traces and
// logs. Set it as [Options].Observer. The zero value sees nothing; it costs no allocation and one comparison for
// each call and event.
//
// Both functions are called by many goroutines at once, in the goroutine that calls or reports, so they
// must be quick. They may be called while the library holds a mutex. So they must not use the Client, nor a
// primitive or a lease on it.
//
// Packages observe/promobserve and observe/otelobserve make Observers for Prometheus and OpenTelemetry,
// [Log] makes an OnEvent for slog, and [JoinObservers] combines several.
type Observer struct {
	// OnCall is called before each command or pipeline that a primitive or the program sends through the
	// Client. The Client merges calls into pipelines; OnCall sees the calls and not these pipelines. The call
	// runs in the returned context, which is ctx or derived from it. When the call is over, the Client calls
	// end once, with the call's error or the first error among the replies of a pipeline. Neither result may
	// be nil. OnCall doesn't see the Client's own PINGs and subscriptions.
	OnCall func(ctx context.Context, call Call) (callCtx context.Context, end func(err error))

	// OnEvent is called with each [Event]. ctx is the caller's, or context.Background() for an event without
	// a caller, such as a lost lease.
	OnEvent func(ctx context.Context, e Event)
}

// A Call describes a command or a pipeline to an [Observer]. It has no keys and no arguments, because these
// may be secret.
type Call struct {
	// Operation is the name of the script, like "lock.acquire", or of the command, like "HSET". It is
	// "pipeline" for a pipeline of different operations. Operations are few: names of locks and queues are
	// no part of them.
	Operation string
	// Script is nil for a plain command, and for a pipeline of different operations.
	Script *Script
	// Size is how many commands the call sends: 1 for [Client.Do].
	Size int
	// Blocking says that a command of the call may wait on the server, like BLPOP. The call's time is then
	// no measure of latency.
	Blocking bool
	// Node is the primary of a cluster, as host:port. It is empty elsewhere, and for a pipeline.
	Node string
}

// EventKind says what an [Event] reports.
type EventKind string

// The kinds of events that the primitives share. The events of a queue and of a cache keep the kinds of
// queue.Event and cache.Event, such as "started" and "hit".
const (
	// EventWaited: a caller has waited for a lock, a latch, a rate limit, or another caller's load of a
	// cache. Took is the time of the wait. Err is nil when the caller got what it waited for.
	EventWaited EventKind = "waited"
	// EventHandOver: a wake-up has reached a waiting caller, and the server has given it the lock. Took is the time
	// between the two. A release wakes a waiter, and so does a lost connection. It is not about lock's HandOver.
	EventHandOver EventKind = "hand-over"
	// EventAllowed and EventDenied: a rate limit has decided on a call that takes something. Err says why the
	// server did not decide.
	EventAllowed EventKind = "allowed"
	EventDenied  EventKind = "denied"
	// EventLost: the lease of a lock, of a message, or of a call under ratelimit.Concurrency ended before it
	// was released. For a lock, Err matches lock.ErrNotHeld and says why.
	EventLost EventKind = "lost"
	// EventRenewalFailed: the server could not be asked to renew a lease. The lease goes on until its
	// deadline, and the renewal is tried again.
	EventRenewalFailed EventKind = "renewal failed"
	// EventRetried: a message failed and is due again.
	EventRetried EventKind = "retried"
	// EventDied: a message failed for the last time, or can't be read.
	EventDied EventKind = "died"
	// EventServerError: a queue or a cache goes on although the server failed it.
	EventServerError EventKind = "server error"
)

// An Event is something that happened in a primitive.
type Event struct {
	Kind EventKind
	// Primitive is the package: "lock", "ratelimit", "queue" or "cache".
	Primitive string
	// Name is the name of the lock, the limit, the queue or the cache. A lease on several names has the name
	// that ended first.
	Name string
	// ID is the ID of a message, or the key of an entry of a cache. It is empty for a lock, because the ID of
	// a lease is a secret.
	ID string
	// Took is the time of a wait, a handler or a load. When a message starts, it is the time since the message
	// became ready.
	Took time.Duration
	Err  error
}

// Report gives e to the Observer, and does nothing without one. Primitives call it.
func (c *Client) Report(ctx context.Context, e Event) {
	if c.observer.OnEvent != nil {
		c.observer.OnEvent(ctx, e)
	}
}

// begin tells the Observer, which has an OnCall, that cmds begin.
func (c *Client) begin(ctx context.Context, cmds []Cmd, node string) (callCtx context.Context, end func(error)) {
	call := Call{Operation: "pipeline", Size: len(cmds), Node: node}
	for i := range cmds {
		cmd := &cmds[i]
		call.Blocking = call.Blocking || cmd.Flags&Blocking != 0
		switch name := cmd.operation(); {
		case i == 0:
			call.Operation, call.Script = name, cmd.Script
		case name != call.Operation:
			call.Operation, call.Script = "pipeline", nil
		}
	}
	return c.observer.OnCall(ctx, call)
}

// operation is the name of a command for an [Observer].
func (c *Cmd) operation() string {
	if c.Script != nil {
		return c.Script.Name()
	}
	return c.Name
}

// firstError returns the first error among replies.
func firstError(replies []Reply) error {
	for i := range replies {
		if replies[i].Err != nil {
			return replies[i].Err
		}
	}
	return nil
}

// ErrorLabel returns a word for err that suits a label of a metric: the code of a [ServerError], like
// "WRONGTYPE"; "unavailable", "canceled", "deadline", "closed", "unknown outcome" or "other"; empty for nil.
func ErrorLabel(err error) string {
	se, refused := errors.AsType[ServerError](err)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrUnavailable):
		return "unavailable"
	case refused:
		code := se.Code()
		if len(code) > 20 || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
			return "ERR" // a text without a code
		}
		return code
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	case errors.Is(err, ErrClosed):
		return "closed"
	case errors.Is(err, ErrUnknownOutcome):
		return "unknown outcome"
	}
	return "other"
}

// JoinObservers returns an Observer that calls all of observers: OnCall and OnEvent in their order, the
// ends of a call in the opposite order.
func JoinObservers(observers ...Observer) Observer {
	var joined Observer
	for _, o := range observers {
		joined = joined.with(o)
	}
	return joined
}

func (o Observer) with(next Observer) Observer {
	if call := o.OnCall; call == nil {
		o.OnCall = next.OnCall
	} else if next.OnCall != nil {
		o.OnCall = func(ctx context.Context, c Call) (context.Context, func(error)) {
			ctx, end := call(ctx, c)
			ctx, inner := next.OnCall(ctx, c)
			return ctx, func(err error) {
				inner(err)
				end(err)
			}
		}
	}
	if event := o.OnEvent; event == nil {
		o.OnEvent = next.OnEvent
	} else if next.OnEvent != nil {
		o.OnEvent = func(ctx context.Context, e Event) {
			event(ctx, e)
			next.OnEvent(ctx, e)
		}
	}
	return o
}

// Log returns a function for the OnEvent of an [Observer] that logs to logger: EventLost,
// EventRenewalFailed and EventRetried as Warn, EventDied and EventServerError as Error, all others as Debug.
// queue.Log and cache.Log log the same events with more fields; use Log or these.
func Log(logger *slog.Logger) func(ctx context.Context, e Event) {
	return func(ctx context.Context, e Event) {
		level := slog.LevelDebug
		switch e.Kind {
		case EventLost, EventRenewalFailed, EventRetried:
			level = slog.LevelWarn
		case EventDied, EventServerError:
			level = slog.LevelError
		default:
		}
		if !logger.Enabled(ctx, level) {
			return
		}
		attrs := []slog.Attr{slog.String("primitive", e.Primitive), slog.String("event", string(e.Kind)), slog.String("name", e.Name)}
		if e.ID != "" {
			attrs = append(attrs, slog.String("id", e.ID))
		}
		if e.Took > 0 {
			attrs = append(attrs, slog.Duration("took", e.Took))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		logger.LogAttrs(ctx, level, "redoubt", attrs...)
	}
}
