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
	// Hit: an entry was there and fresh. Those of the local level are only
	// counted: see [Stats].
	Hit EventKind = "hit"
	// Negative: it was there, fresh, and says that the source has none.
	Negative EventKind = "negative"
	// Stale: an entry was served that is not fresh any more.
	Stale EventKind = "stale"
	// Refused: [Options.Filter] said that the source has none.
	Refused EventKind = "refused"
	// Waited: the answer is that of a load which another caller, in this process or
	// in another, had begun. Took is how long it was waited for.
	Waited EventKind = "waited"
	// Loaded: the source was asked. Took is how long that was, Err what it failed
	// with.
	Loaded EventKind = "loaded"
	// Dropped: what was loaded was not stored, because it was invalidated
	// meanwhile, because the lease was lost, or because it can't be: then Err says
	// why.
	Dropped EventKind = "dropped"
	// Trouble: the server can't be reached, or refuses. The cache goes on without.
	Trouble EventKind = "trouble"
)

// An Event is something that happened in a Cache. It has what metrics and spans are
// made of.
type Event struct {
	Kind EventKind
	// Cache is [Options.Name].
	Cache string
	// Key is the text of the key; empty in case of Trouble.
	Key string
	// Took is the time of a load or a wait.
	Took time.Duration
	Err  error
}

// Log returns a function for [Options.OnEvent] that logs to a logger: what went well as
// Debug, loads that failed and what was dropped with an error as Warn, trouble as
// Error.
func Log(logger *slog.Logger) func(ctx context.Context, e Event) {
	return func(ctx context.Context, e Event) {
		level := slog.LevelDebug
		switch {
		case e.Kind == Trouble:
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
