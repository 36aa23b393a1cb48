package server_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/outage"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A logBuffer is a log that tests read.
type logBuffer struct{ await.Buffer }

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count returns how many lines have all of the words.
func (l *logBuffer) count(words ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

// TestLostBackendIsLogged: one line when the back end is lost, and one when it is back, however
// many connections there are to it.
func TestLostBackendIsLogged(t *testing.T) {
	r := redistest.Start(t)
	var log logBuffer
	srv, addr := start(t, r.URL(), func(o *server.Options) { o.Logger = log.logger() })
	w := dial(t, addr)
	_ = w.do("HELLO", "3")
	w.want("_\r\n", "GET k")
	eventually(t, "both shared connections are made", func() bool { u := srv.Stats().Upstreams; return len(u) == 2 && u[0].Up && u[1].Up })
	for i := range 2 {
		r.Kill()
		eventually(t, "the loss is logged", func() bool { return log.count("a server is lost", "level=ERROR", "server="+r.Addr(), "error=") == i+1 })
		eventually(t, "both know", func() bool { u := srv.Stats().Upstreams; return !u[0].Up && !u[1].Up })
		r.Restart()
		eventually(t, "the return is logged", func() bool { return log.count("a server is back", "level=INFO", "server="+r.Addr(), "away=") == i+1 })
		eventually(t, "both shared connections are made", func() bool { u := srv.Stats().Upstreams; return u[0].Up && u[1].Up })
	}
	if n := log.count("a server is"); n != 4 {
		t.Errorf("%d lines, want 4", n)
	}
}

// TestLostServersAreLogged: the server logs the loss of its back end. In front of a pool it also logs
// servers that are down at the start, and servers that leave the ring and return.
func TestLostServersAreLogged(t *testing.T) {
	var log logBuffer
	p, opts := poolServers(t, 2, func(o *proxy.PoolOptions) {
		o.Eject, o.FailureLimit, o.RetryTimeout = true, 1, time.Millisecond
		o.OnChange = outage.Log(log.logger())
	})
	p.nodes[1].Kill()
	p.serve(t, opts)
	w := dial(t, p.addr)
	for _, k := range []string{"a", "b", "c", "d"} {
		_ = w.do("GET", k)
	}
	eventually(t, "the loss is logged", func() bool { return log.count("a server is lost", "server=redis-2", "error=") == 1 })
	eventually(t, "the ejection is logged", func() bool { return log.count("taken out of the ring", "server=redis-2") == 1 })
	p.nodes[1].Restart()
	eventually(t, "the return is logged", func() bool { return log.count("a server is back", "server=redis-2", "away=") == 1 })
	eventually(t, "so is that to the ring", func() bool { return log.count("in the ring again", "server=redis-2", "away=") == 1 })
	if n := log.count("redis-1"); n > 0 {
		t.Errorf("%d lines of the server that was there", n)
	}
}
