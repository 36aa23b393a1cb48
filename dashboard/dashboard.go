// Package dashboard shows people the state of Redoubt in a browser, from a Go program:
//
//	dash, err := dashboard.New(client, dashboard.Options{})
//	if err != nil {
//		return err
//	}
//	defer dash.Close()
//	mux.Handle("/ops/", http.StripPrefix("/ops", dash))
//
// The page shows locks and semaphores, limits, queues, stock, caches, Bloom filters and the server behind
// the client. It works below any prefix, and loads nothing from other hosts. `redoubt serve --http` serves the
// same page.
//
// # Who may look
//
// Without [Options.Password] the handler answers loopback connections only: 403 for all others. It answers
// under loopback names, the address of the connection, and [Options.Hosts], and refuses requests that another
// site made the browser send. People change something only with [Options.AllowWrites]. A reverse proxy on the
// same machine makes every connection a loopback connection: set a password behind one.
//
// # Costs
//
// For each second in which somebody looks, however many do, the server gets at most one INFO, ten SCANs of
// 1,000 keys, and a pipeline for each page of 50 names. While nobody looks it gets one INFO in thirty seconds,
// for the charts.
package dashboard

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/dashboard"
)

// Options configure a [Handler]. The zero value is a page to look at, for this machine only.
type Options struct {
	// Password, when not empty, is what people must give, by HTTP's Basic authentication. Defaults to none:
	// then only loopback connections are served.
	Password string
	// Username goes with Password. Defaults to "default".
	Username string
	// AllowWrites lets people release locks, and requeue, cancel, delete, pause, resume and drain the
	// messages of queues. Defaults to looking only: every action is refused with 403.
	AllowWrites bool
	// Hosts are names, without a port, under which people reach the page, beside loopback names and the
	// address of the connection. Any other Host is refused with 403, because a foreign page could use it.
	Hosts []string
	// Caches returns the counts of caches of this program, by the name of the cache: see cache.Stats.
	// Defaults to none.
	Caches func() map[string]CacheCounts
	// Logger gets each action with its user, and each refused password. Defaults to nothing.
	Logger *slog.Logger
}

// CacheCounts are counts of a cache in this program, since it was made.
type CacheCounts struct {
	// Hits are answers from a fresh value, Stale from an older one.
	Hits, Stale int64
	// Loads are calls of the source, Errors the ones that failed.
	Loads, Errors int64
}

// A Handler serves the page and its data. Make it with [New]. It is safe for concurrent use.
type Handler struct {
	inner *dashboard.Handler
}

var _ http.Handler = (*Handler)(nil)

// New returns a Handler that shows what is behind client. It begins to sample the server for the charts;
// Close ends that. The client stays the caller's. Mount the Handler with its prefix cut off, by
// http.StripPrefix; it redirects the mount point without a slash to the one with it.
func New(client *redoubt.Client, opts Options) (*Handler, error) {
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("dashboard: client is nil"))
	}
	if opts.Username != "" && opts.Password == "" {
		errs = append(errs, errors.New("dashboard: Username is set and Password is empty"))
	}
	for _, host := range opts.Hosts {
		errs = append(errs, dashboard.CheckHost(host))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if opts.Username == "" {
		opts.Username = "default"
	}
	source := dashboard.Source{
		Name: "redis", Kind: dashboard.KindRedis, Client: client,
		Users: dashboard.OneUser(opts.Username, opts.Password, opts.AllowWrites),
	}
	if opts.Caches != nil {
		source.Caches = func() map[string]dashboard.CacheCounts {
			all := map[string]dashboard.CacheCounts{}
			for name, c := range opts.Caches() {
				all[name] = dashboard.CacheCounts(c)
			}
			return all
		}
	}
	inner, err := dashboard.New(dashboard.Options{
		Sources: func() []dashboard.Source { return []dashboard.Source{source} }, Hosts: opts.Hosts, Logger: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Handler{inner}, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.inner.ServeHTTP(w, r) }

// Close ends the sampling, and waits for its last reading, two seconds at most. Requests that come later get
// 503. Close may be called more than once. It returns nil.
func (h *Handler) Close() error { return h.inner.Close() }
