package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	internalengine "github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/scheme"
	"github.com/redoubt-go/redoubt/internal/server"
)

var (
	// ErrClosed is returned by [Server.Serve] and [Server.Listen] after [Server.Shutdown] or
	// [Server.Close].
	ErrClosed = server.ErrClosed
	// ErrExposed is matched by the error for an address that other machines can reach while clients
	// need no password.
	ErrExposed = server.ErrExposed
)

// Options configure a [Server]. Engine or URL must be set; the zero value of every other field is its
// documented default.
type Options struct {
	// Engine keeps the data. It stays open when the Server is closed; close the Server first.
	Engine *engine.Engine
	// URL names what keeps the data instead: a Redis server by redis://[user:password@]host[:port][/db],
	// rediss:// with TLS, or unix:///path, which need an import of package goredis; or an engine by embedded:,
	// in memory, or embedded:/path, saved in a directory. The Server closes that engine.
	URL string
	// Prefix begins every key of Redoubt's own commands, as redoubt.Options.Prefix does for the
	// library: both must be equal to share locks and limits. Defaults to "rd".
	Prefix string

	// Password, when not empty, is what a client must give by AUTH or HELLO. Defaults to none: then
	// only loopback addresses and unix sockets can be listened on.
	Password string
	// Username goes with Password. Defaults to "default".
	Username string
	// TLS, when set, is spoken on every TCP listener of [Server.Listen]. Defaults to none.
	TLS *tls.Config

	// MaxClients is how many clients may be connected at a time. Another one is refused with Redis'
	// error. Defaults to 10,000.
	MaxClients int
	// MaxClientMemory is how many bytes all clients may hold together: unfinished commands,
	// transactions, and replies that wait to be sent. A client that needs more has the largest client
	// closed, or is closed if it is the largest itself. Defaults to 1 GiB.
	MaxClientMemory int64
	// IdleTimeout closes a client that has sent nothing for this long, unless it waits for a reply or
	// for messages. Defaults to never.
	IdleTimeout time.Duration
	// WriteTimeout closes a client that takes none of its replies for this long. Defaults to 30 s.
	WriteTimeout time.Duration

	// Logger gets warnings for an operator. Defaults to nothing.
	Logger *slog.Logger
}

// A Server serves Redis clients. Make it with [New]. Its methods are safe for concurrent use.
type Server struct {
	inner  *server.Server
	client *redoubt.Client
	stop   func()         // stops the scripts of clients on an Engine
	own    *engine.Engine // of a URL embedded:; else nil
}

// urls are the URLs that Options.URL takes.
var urls = scheme.Door{
	Name: "Options.URL", Takes: slices.Concat(scheme.One, []string{scheme.Embedded}),
	Sentinel: "`redoubt serve --backend` takes it",
	Cluster:  "`redoubt serve --backend` takes it",
}

// New returns a Server that listens nowhere yet. With [Options.URL] it connects to that server, within
// ten seconds or until ctx ends; a node of a cluster is refused. It opens an embedded: URL as engine.Open
// does. Later ctx has no effect. After an error nothing is left open. Close or Shutdown ends the Server.
func New(ctx context.Context, opts Options) (*Server, error) {
	inner, err := opts.settle()
	if err != nil {
		return nil, err
	}
	s := &Server{stop: func() {}}
	if name, _ := scheme.Of(opts.URL); name == scheme.Embedded { // settle has checked it
		_, dir, _ := strings.Cut(opts.URL, ":")
		if s.own, err = engine.Open(ctx, engine.Options{Dir: dir, Logger: opts.Logger}); err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
		opts.Engine = s.own
	}
	if opts.Engine != nil {
		e := internalengine.Of(opts.Engine)
		group := e.Group()
		s.stop = group.StopScripts
		inner.Backend = group
		inner.Sessions = func(client net.Conn) server.Session { return group.SessionFor(client) }
		s.client, err = redoubt.New(e, redoubt.Options{Prefix: opts.Prefix})
	} else {
		s.client, err = dial(ctx, opts)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("server: %w", err), s.closeOwn())
	}
	inner.Client = s.client
	if s.inner, err = server.New(inner); err != nil {
		return nil, errors.Join(err, s.client.Close(), s.closeOwn())
	}
	return s, nil
}

// closeOwn closes the engine of a URL embedded:.
func (s *Server) closeOwn() error {
	if s.own == nil {
		return nil
	}
	return s.own.Close()
}

// settle returns the options of internal/server, but for an engine and the client.
func (o *Options) settle() (inner server.Options, err error) {
	var errs []error
	switch {
	case o.Engine == nil && o.URL == "":
		errs = append(errs, errors.New("server: neither Engine nor URL is set"))
	case o.Engine != nil && o.URL != "":
		errs = append(errs, errors.New("server: Engine and URL are both set"))
	case o.URL != "":
		name, err := urls.Check(o.URL)
		if err != nil {
			errs = append(errs, fmt.Errorf("server: %w", err))
		} else if name != scheme.Embedded {
			if inner.Backend, err = proxy.ParseURL(o.URL); err != nil {
				errs = append(errs, fmt.Errorf("server: URL: %w", err))
			}
		}
	}
	if err := (redoubt.Options{Prefix: o.Prefix}).Validate(); err != nil {
		errs = append(errs, fmt.Errorf("server: %w", err))
	}
	if o.MaxClientMemory < 0 {
		errs = append(errs, fmt.Errorf("server: MaxClientMemory is %d; want at least 0", o.MaxClientMemory))
	}
	inner.Password, inner.Username, inner.TLS = o.Password, o.Username, o.TLS
	inner.MaxClients, inner.IdleTimeout, inner.WriteTimeout, inner.Logger = o.MaxClients, o.IdleTimeout, o.WriteTimeout, o.Logger
	inner.Budget = budget.New(max(0, o.MaxClientMemory))
	return inner, errors.Join(append(errs, inner.Validate())...)
}

// dial connects to the server that the URL names.
func dial(ctx context.Context, opts Options) (*redoubt.Client, error) {
	client, err := redoubt.Open(ctx, opts.URL, redoubt.Options{Prefix: opts.Prefix})
	if err != nil {
		return nil, err
	}
	// A server that refuses INFO is taken for one outside of a cluster.
	info, _ := client.Do(ctx, redoubt.Cmd{Name: "INFO", Args: []string{"cluster"}, Flags: redoubt.ReadOnly}).Text()
	if strings.Contains(info, "cluster_enabled:1") {
		return nil, errors.Join(errors.New("URL names a node of a cluster; want a single server"), client.Close())
	}
	return client, nil
}

// Listen opens a listener for [Server.Serve]. Network is tcp, with an address like 127.0.0.1:6380, or
// unix, with a path. Without a password, an address that other machines can reach gives an error that
// matches [ErrExposed].
func (s *Server) Listen(network, address string) (net.Listener, error) {
	return s.inner.Listen(network, address)
}

// Serve serves clients on l until Shutdown or Close, and then returns [ErrClosed]. It closes l. It may
// be called for several listeners at a time. A listener from elsewhere than [Server.Listen], such as one
// of systemd, speaks TLS only if it does so by itself; without a password, an exposed one is closed with
// an error that matches [ErrExposed].
func (s *Server) Serve(l net.Listener) error {
	return s.inner.Serve(l)
}

// Shutdown ends the server gracefully. It accepts no more clients, ends what Redoubt's commands wait
// for, lets commands finish, and closes each client once it has its replies. When ctx ends first,
// Shutdown closes the other clients as Close does, and returns ctx's error. It returns when all of them
// are gone.
func (s *Server) Shutdown(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.stop)()
	return errors.Join(s.inner.Shutdown(ctx), s.client.Close(), s.closeOwn())
}

// Close ends the server at once: clients don't get the replies that they wait for. On an Engine it stops
// the scripts of clients, and no others; what a script has written stays. It returns when all clients are
// gone. Close may be called more than once. Of an engine that the URL names, Close and Shutdown return the error of
// its Close too.
func (s *Server) Close() error {
	s.stop()
	return errors.Join(s.inner.Close(), s.client.Close(), s.closeOwn())
}
