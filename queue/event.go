package queue

import (
	"context"
	"log/slog"
	"time"
)

// EventKind says what happened.
type EventKind string

// The kinds of events. Those of a message have its Job.
const (
	// Started: a handler has got the message.
	Started EventKind = "started"
	// Completed: it returned nil.
	Completed EventKind = "completed"
	// Retried: it failed, and comes back after Delay.
	Retried EventKind = "retried"
	// Died: it failed for the last time.
	Died EventKind = "died"
	// Snoozed: it comes back after Delay, without a failure.
	Snoozed EventKind = "snoozed"
	// HandedBack: the consumer stops, or a message of the same batch was lost.
	// Another consumer can take it at once.
	HandedBack EventKind = "handed back"
	// Lost: the lease is lost, and what the handler returned is ignored.
	Lost EventKind = "lost"
	// Trouble: the server can't be reached, refuses, or is not fit: see
	// [ErrEviction]. The consumer goes on.
	Trouble EventKind = "trouble"
)

// An Event is something that happened in [Queue.Run].
type Event struct {
	Kind EventKind
	// Queue is the queue's name.
	Queue string
	// Job is the message. Nil in case of Trouble.
	Job *Job
	// Err is what the handler returned, or what the trouble is.
	Err error
	// Took is how long the handler ran.
	Took time.Duration
	// Delay is the time until the message is due again.
	Delay time.Duration
}

// Log returns a function for [Options.Events] that logs to a logger: what went
// well as Debug, what failed as Warn, what died and trouble as Error.
func Log(logger *slog.Logger) func(ctx context.Context, e Event) {
	return func(ctx context.Context, e Event) {
		level := slog.LevelDebug
		switch e.Kind {
		case Retried, Lost:
			level = slog.LevelWarn
		case Died, Trouble:
			level = slog.LevelError
		default:
		}
		if !logger.Enabled(ctx, level) {
			return
		}
		attrs := []slog.Attr{slog.String("queue", e.Queue), slog.String("event", string(e.Kind))}
		if e.Job != nil {
			attrs = append(attrs, slog.String("id", e.Job.ID), slog.Int("attempt", e.Job.Attempt), slog.Duration("waited", e.Job.Waited))
		}
		if e.Took > 0 {
			attrs = append(attrs, slog.Duration("took", e.Took))
		}
		if e.Delay > 0 {
			attrs = append(attrs, slog.Duration("delay", e.Delay))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		logger.LogAttrs(ctx, level, "queue", attrs...)
	}
}
