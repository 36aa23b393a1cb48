package main

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/dashboard/served"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/socket"
)

// withDashboard serves the dashboard at / beside the paths of inner, and with --pprof the profiles to whoever may use it.
func (w *webServer) withDashboard(inner *http.ServeMux, f *serveFlags, sources func() []dashboard.Source, log *slog.Logger) error {
	d, err := dashboard.New(dashboard.Options{
		Sources: sources, Hosts: f.httpHosts, Exposed: socket.Exposed(w.listener.Addr()), Version: readBuildVersion(), Logger: log,
	})
	if err != nil {
		return fail(exitUsage, err)
	}
	w.dashboard = d
	inner.Handle("/", d)
	if f.pprof {
		inner.Handle("GET /debug/pprof/", d.Guard(profiles()))
	}
	return nil
}

// sourceOf returns the source of the dashboard for one back end, whose clients come in at a URL.
func sourceOf(srv *server.Server, back *backend, url string) func() []dashboard.Source {
	if back.group != nil {
		s := back.group.Source(srv)
		s.URL = url
		return func() []dashboard.Source { return []dashboard.Source{s} }
	}
	name := dashboard.KindRedis
	if !back.remote() {
		name = dashboard.KindEngine
	}
	s := served.Source(name, name, url, srv, time.Now())
	s.SaveErr = back.saveErr
	return func() []dashboard.Source { return []dashboard.Source{s} }
}

// checkHosts returns the faults of --http-host.
func checkHosts(hosts []string) error {
	var errs []error
	for _, host := range hosts {
		errs = append(errs, dashboard.CheckHost(host))
	}
	return errors.Join(errs...)
}
