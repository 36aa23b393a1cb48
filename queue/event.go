package queue

import (
	"context"
	"log/slog"
	"time"

	"github.com/redoubt-go/redoubt"
)

// EventKind says what an [Event] reports.
type EventKind string

// The kinds of events. All but ServerError and BadSchedule are about one message.
const (
	// Started: a handler begins to work on the message.
	Started EventKind = "started"
	// Completed: the handler returned nil.
	Completed EventKind = "completed"
	// Retried: the message failed and is due again after Delay.
	Retried EventKind = "retried"
	// Died: the message failed for the last time, or can't be read.
	Died EventKind = "died"
	// Snoozed: the message is due again after Delay; no failure is counted.
	Snoozed EventKind = "snoozed"
	// HandedBack: another consumer can take the message at once, because this one stops
	// or another message of the batch was lost. No failure is counted.
	HandedBack EventKind = "handed back"
	// Lost: the lease is lost, and the handler's result is ignored.
	Lost EventKind = "lost"
	// ServerError: the server can't be reached, refuses a call, or may evict keys: see
	// [ErrEviction]. The consumer goes on.
	ServerError EventKind = "server error"
	// BadSchedule: [Schedules.Run] can't work with a schedule, and goes on with the others.
	BadSchedule EventKind = "bad schedule"
)

// An Event reports what a consumer or a scheduler did. See [Options.OnEvent].
type Event struct {
	Kind EventKind
	// Queue is the queue's name.
	Queue string
	// Job is the message; nil for ServerError and BadSchedule.
	Job *Job
	// Err is the handler's error, or the error of the server.
	Err error
	// Took is how long the handler ran.
	Took time.Duration
	// Delay is the time until the message is due again.
	Delay time.Duration
}

// reporting returns a function that gives each event to the Observer of client, then to next.
func reporting(client *redoubt.Client, next func(ctx context.Context, e Event)) func(ctx context.Context, e Event) {
	return func(ctx context.Context, e Event) {
		r := redoubt.Event{Kind: redoubt.EventKind(e.Kind), Primitive: "queue", Name: e.Queue, Took: e.Took, Err: e.Err}
		if e.Job != nil {
			r.ID = e.Job.ID
			if e.Kind == Started {
				r.Took = e.Job.Waited
			}
		}
		client.Report(ctx, r)
		next(ctx, e)
	}
}

// Log returns a function for [Options.OnEvent] that logs to logger: Retried and Lost as
// Warn, Died and ServerError as Error, all others as Debug.
func Log(logger *slog.Logger) func(ctx context.Context, e Event) {
	return func(ctx context.Context, e Event) {
		level := slog.LevelDebug
		switch e.Kind {
		case Retried, Lost:
			level = slog.LevelWarn
		case Died, ServerError, BadSchedule:
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
