package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// newLog returns a logger with the level and the format of the flags.
func newLog(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	switch level {
	case "debug", "info", "warn", "error":
		_ = l.UnmarshalText([]byte(level)) // these four it knows
	default:
		return nil, fmt.Errorf("log-level is %q; want debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		opts.ReplaceAttr = nameUnit
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("log-format is %q; want text or json", format)
}

// nameUnit makes a duration a number of seconds, and says so in its name. A JSON log would have plain nanoseconds; a
// text log has the unit beside the number.
func nameUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}

// silent is a logger of go-redis.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// A clientLog sends the lines of go-redis' logger to the log of serve, at level debug: each is about a
// single attempt.
type clientLog struct{ log *slog.Logger }

func (l clientLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "go-redis", slog.String("message", fmt.Sprintf(format, v...)))
}
