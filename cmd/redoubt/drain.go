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
}

// drain shuts d down gracefully. A second signal ends it at once.
func drain(d drainer, web *webServer, timeout time.Duration, sig os.Signal, signals <-chan os.Signal, log *slog.Logger) {
	log.Info("draining", slog.String("signal", sig.String()), slog.Int("clients", d.Clients()), slog.Duration("timeout", timeout))
	web.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	switch err := d.Shutdown(ctx); {
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
