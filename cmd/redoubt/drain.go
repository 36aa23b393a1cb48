package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/redoubt-go/redoubt/internal/server"
)

// A drainer serves clients: a drainingServer or a [poolhost.Host].
type drainer interface {
	Clients() int
	Shutdown(ctx context.Context) error
	Drained() server.Drained
}

// drain shuts d down gracefully, and logs one line when it begins and one when it ends. cause is the signal. Another
// one ends it at once.
func drain(d drainer, web *webServer, timeout time.Duration, cause string, signals <-chan os.Signal, log *slog.Logger) {
	web.draining.Store(true) // before the listener closes
	began := time.Now()
	log.Info("draining", slog.String("signal", cause), slog.Int("clients", d.Clients()), slog.Duration("timeout", timeout))
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := d.Shutdown(ctx)
	left := d.Drained()
	log = log.With(slog.Int("clients_left", left.Clients), slog.Uint64("commands_cut", left.Commands), slog.Duration("took", time.Since(began)))
	switch {
	case errors.Is(err, context.Canceled):
		log.Warn("ended at once by a second signal")
	case err != nil:
		log.Warn("closed clients before all replies were sent", slog.Any("error", err))
	default:
		log.Info("ended")
	}
}

// A drainingServer stops the scripts of its back end when the time to drain is over.
type drainingServer struct {
	*server.Server
	back *backend
}

func (d drainingServer) Clients() int { return d.Stats().Clients }

func (d drainingServer) Shutdown(ctx context.Context) error {
	if d.back.hurry != nil {
		defer context.AfterFunc(ctx, d.back.hurry)()
	}
	return d.Server.Shutdown(ctx)
}
