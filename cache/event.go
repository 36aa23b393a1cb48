package cache

import (
	"context"
	"log/slog"
	"time"
)

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	// Hit: an entry was on the server and fresh. Hits of the local level are only counted: see
	// [Stats].
	Hit EventKind = "hit"
	// Negative: a fresh entry says that the source does not have the key.
	Negative EventKind = "negative"
	// Stale: an entry was served that is no longer fresh.
	Stale EventKind = "stale"
	// Refused: [Options.Filter] said that the source does not have the key.
	Refused EventKind = "refused"
	// Waited: the value came from a load of another caller, in this process or in another. Took is
	// how long the caller waited.
	Waited EventKind = "waited"
	// Loaded: the source was asked. Took is how long that took, Err its error.
	Loaded EventKind = "loaded"
	// Dropped: a loaded value was not stored, because the key was invalidated, the lease was lost,
	// or the value can't be stored; then Err says why.
	Dropped EventKind = "dropped"
	// ServerError: the server can't be reached, or refuses. The cache continues without it.
	ServerError EventKind = "server error"
)

// An Event is something that happened in a Cache, with the fields for metrics and spans.
type Event struct {
	Kind EventKind
	// Cache is [Options.Name].
	Cache string
	// Key is the text of the key; empty for ServerError.
	Key string
	// Took is the time of a load or a wait.
	Took time.Duration
	Err  error
}

// Log returns a function for [Options.OnEvent] that logs to a logger: ServerError as Error, other
// events with an error as Warn, all others as Debug.
func Log(logger *slog.Logger) func(ctx context.Context, e Event) {
	return func(ctx context.Context, e Event) {
		level := slog.LevelDebug
		switch {
		case e.Kind == ServerError:
			level = slog.LevelError
		case e.Err != nil:
			level = slog.LevelWarn
		}
		if !logger.Enabled(ctx, level) {
			return
		}
		attrs := []slog.Attr{slog.String("cache", e.Cache), slog.String("event", string(e.Kind))}
		if e.Key != "" {
			attrs = append(attrs, slog.String("key", e.Key))
		}
		if e.Took > 0 {
			attrs = append(attrs, slog.Duration("took", e.Took))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		logger.LogAttrs(ctx, level, "cache", attrs...)
	}
}
