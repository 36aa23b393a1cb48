package server

import (
	"log/slog"
	"time"

	"github.com/redoubt-go/redoubt/proxy"
)

// LogChanges returns what logs a line for each change of a server, for [proxy.PoolOptions.Told].
func LogChanges(log *slog.Logger) func(proxy.Change) {
	return func(c proxy.Change) {
		log := log.With("server", c.Server)
		switch c.Kind {
		case proxy.Lost:
			log.Error("a server is lost", slog.Any("error", c.Err))
		case proxy.Back:
			log.Info("a server is back", slog.String("away", c.Away.Round(time.Millisecond).String()))
		case proxy.Ejected:
			log.Error("a server was taken out of the ring: other servers have its keys")
		case proxy.Restored:
			log.Info("a server is in the ring again", slog.String("away", c.Away.Round(time.Millisecond).String()))
		}
	}
}
