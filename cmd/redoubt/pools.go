package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/redoubt-go/redoubt/command"
	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
	"github.com/redoubt-go/redoubt/server"
)

// checkPools finds flags that make no sense beside --pools.
func (f *serveFlags) checkPools(flags *pflag.FlagSet) error {
	if f.pools == "" {
		return misusef("--test-conf needs the file that it is about: --pools FILE")
	}
	for _, name := range []string{"listen", "backend", "dir", "prefix"} {
		if flags.Changed(name) {
			return misusef("--%s and --pools exclude each other: the file says where to listen and which servers there are", name)
		}
	}
	return nil
}

// readPools reads the file of --pools, and returns its warnings too.
func readPools(path string) (poolfile.File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return poolfile.File{}, usagef("pools: %w", err)
	}
	file, err := poolfile.Parse(path, text)
	if err != nil {
		return file, fail(exitUsage, err)
	}
	var errs []error
	for _, p := range file.Pools {
		if !p.Redis {
			errs = append(errs, &poolfile.Error{File: path, Line: p.Line, Text: fmt.Sprintf(
				"pool %q is one of memcached, which is not supported yet; want redis: true", p.Name)})
		}
		if p.Reuseport {
			file.Warnings = append(file.Warnings, fmt.Sprintf("%s:%d: pool %q: reuseport is not supported, and ignored", path, p.Line, p.Name))
		}
	}
	if len(errs) > 0 {
		return file, fail(exitUsage, errors.Join(errs...))
	}
	return file, nil
}

// testConf says what is wrong with a file of pools, or that nothing is.
func testConf(path string, stderr io.Writer) error {
	file, err := readPools(path)
	for _, w := range file.Warnings {
		_, _ = fmt.Fprintln(stderr, "warning:", w)
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stderr, "%s: %d pools, nothing wrong\n", path, len(file.Pools))
	return nil
}

// A servedPool is one pool of the file and what serves it.
type servedPool struct {
	name     string
	conf     poolfile.Pool // of the goroutine that reloads
	pool     atomic.Pointer[proxy.Pool]
	server   *server.Server
	listener net.Listener
}

// ring returns the servers as they are now.
func (p *servedPool) ring() *proxy.Pool { return p.pool.Load() }

// close ends it at once. It may be half made.
func (p *servedPool) close() {
	if p.listener != nil {
		_ = p.listener.Close()
	}
	if p.server != nil {
		_ = p.server.Close()
	}
	if pool := p.ring(); pool != nil {
		_ = pool.Close()
	}
}

// newPool returns the pool that a file describes.
func newPool(c poolfile.Pool) (*proxy.Pool, error) {
	opts := proxy.PoolOptions{Name: c.Name, Hash: c.Hash, Distribution: c.Distribution, Tag: c.HashTag,
		Timeout: max(0, c.Timeout), Eject: c.AutoEjectHosts, FailureLimit: c.ServerFailureLimit, RetryTimeout: c.ServerRetryTimeout}
	if c.HashTag == "{}" { // else there are no extension commands
		opts.Scripts = command.Scripts()
	}
	for _, s := range c.Servers {
		opts.Servers = append(opts.Servers, proxy.PoolServer{Server: s.Server, Backend: &proxy.Redis{
			Network: s.Network, Addr: s.Address, Label: serverLabel(s), Password: c.RedisAuth, DB: c.RedisDB,
		}})
	}
	return proxy.NewPool(opts)
}

// serverLabel is how errors call a server: by its name, and where it is.
func serverLabel(s poolfile.Server) string {
	if s.Name == s.Address {
		return s.Name
	}
	return s.Name + " (" + s.Address + ")"
}

// openPool makes what serves a pool, and listens.
func openPool(c poolfile.Pool, f serveFlags, password string, log *slog.Logger) (_ *servedPool, err error) {
	p := &servedPool{name: c.Name, conf: c}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	pool, err := newPool(c)
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	p.pool.Store(pool)
	if c.RedisAuth != "" {
		password = c.RedisAuth
	}
	clients := f.maxClients
	if c.ClientConnections > 0 {
		clients = c.ClientConnections
	}
	p.server, err = server.New(server.Options{
		Pool: pool, Password: password, Limits: resp.Limits{MaxBulk: int(f.maxBulk)}, MaxClients: clients,
		MaxPipeline: f.maxPipeline, MaxOutput: int(f.maxOutput), IdleTimeout: f.idleTimeout,
		WriteTimeout: f.writeTimeout, Logger: log.With("pool", c.Name),
	})
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	p.listener, err = p.server.Listen(c.Network, c.Address)
	switch {
	case errors.Is(err, server.ErrExposed):
		return nil, usagef("pool %q: %w: redis_auth in the file, or --password", c.Name, err)
	case err != nil:
		return nil, failf(exitUnavailable, "pool %q: %w", c.Name, err)
	}
	if c.Perm != 0 {
		if err := os.Chmod(c.Address, os.FileMode(c.Perm)); err != nil {
			return nil, failf(exitUnavailable, "pool %q: %w", c.Name, err)
		}
	}
	if c.Preconnect {
		for _, n := range pool.Nodes() {
			if _, err := n.Upstream(resp.RESP2); err != nil {
				return nil, fail(exitFault, err)
			}
		}
	}
	return p, nil
}

// servePools serves all pools of a file until a signal ends it.
func servePools(f serveFlags, signals <-chan os.Signal, stderr io.Writer) error {
	log, err := newLog(stderr, f.logLevel, f.logFormat)
	if err = errors.Join(err, f.check()); err != nil {
		return fail(exitUsage, err)
	}
	password, err := f.password.read()
	if err != nil {
		return err
	}
	file, err := readPools(f.pools)
	if err != nil {
		return err
	}
	for _, w := range file.Warnings {
		log.Warn("the file of pools", slog.String("warning", w))
	}
	setThreads(f.threads, true)
	h := &poolHost{flags: f, password: password, log: log, ended: make(chan error, 1)}
	defer h.close()
	for _, c := range file.Pools {
		if err := h.open(c); err != nil {
			return err
		}
	}
	web, err := listenHTTP(f.http, func(draining *atomic.Bool) (http.Handler, error) {
		return newHandlerOf(h, h.health, draining)
	}, log)
	if err != nil {
		return err
	}
	defer web.close()
	for _, p := range h.pools {
		h.serve(p, web.addr())
	}
	hup := make(chan os.Signal, 1)
	notifyReload(hup)
	defer signal.Stop(hup)
	for {
		select {
		case <-hup:
			h.reload(web.addr())
		case err := <-h.ended:
			return err
		case sig := <-signals:
			h.drain(web, f.drainTimeout, sig, signals)
			return nil
		}
	}
}
