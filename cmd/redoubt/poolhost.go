package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/internal/proxy/memcached"
	"github.com/redoubt-go/redoubt/internal/server"
)

// A poolHost serves the pools of a file, and changes when the file is read again.
type poolHost struct {
	flags    serveFlags
	password string
	log      *slog.Logger
	ended    chan error     // a listener ended by itself
	leaving  sync.WaitGroup // pools on their way out

	mu    sync.Mutex
	pools []*servedPool
}

// now returns the pools that are served.
func (h *poolHost) now() []*servedPool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.pools)
}

// open makes what serves a pool.
func (h *poolHost) open(c poolfile.Pool, t poolTLS) error {
	p, err := openPool(c, t, h.flags, h.password, h.log)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.pools = append(h.pools, p)
	h.mu.Unlock()
	return nil
}

// serve lets clients in.
func (h *poolHost) serve(p *servedPool, http string) {
	password := ""
	if r, ok := p.front.(*redisPool); ok && !r.Open() {
		password = "of some user"
	}
	h.log.Info("serving",
		slog.String("pool", p.name), slog.String("listen", p.listener.Addr().String()),
		slog.Int("servers", len(p.conf.Servers)+len(p.conf.Cluster)), slog.String("ring", p.front.digest()),
		slog.String("password", needed(password)), slog.String("http", http),
		slog.String("version", readBuildVersion()))
	go func() {
		// leave closes the listener.
		if err := p.front.Serve(p.listener); !errors.Is(err, server.ErrClosed) && !errors.Is(err, memcached.ErrClosed) && !errors.Is(err, net.ErrClosed) {
			select {
			case h.ended <- failf(exitUnavailable, "pool %q: listening ended: %w", p.name, err):
			default:
			}
		}
	}()
}

// close ends everything at once.
func (h *poolHost) close() {
	for _, p := range h.now() {
		p.close()
	}
	h.leaving.Wait()
}

// drain ends all servers gracefully. A second signal cuts it short.
func (h *poolHost) drain(web *webServer, timeout time.Duration, sig os.Signal, signals <-chan os.Signal) {
	pools, clients := h.now(), 0
	for _, p := range pools {
		clients += p.front.clients()
	}
	h.log.Info("draining", slog.String("signal", sig.String()), slog.Int("clients", clients), slog.Duration("timeout", timeout))
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
	errs := make(chan error, len(pools))
	for _, p := range pools {
		go func() { errs <- p.front.Shutdown(ctx) }()
	}
	var err error
	for range pools {
		err = errors.Join(err, <-errs)
	}
	switch {
	case errors.Is(err, context.Canceled):
		h.log.Warn("ended at once by a second signal")
	case err != nil:
		h.log.Warn("clients were closed before they had their replies", slog.Any("error", err))
	default:
		h.log.Info("ended")
	}
}

// health names the servers that are down. It returns an error if a pool has no server that
// answers. It writes nothing.
func (h *poolHost) health(ctx context.Context) (wrong []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	var errs []error
	for _, p := range h.now() {
		up, down := p.front.health(ctx)
		if up == 0 {
			errs = append(errs, fmt.Errorf("pool %s: no server answers", p.name))
		}
		for _, s := range down {
			wrong = append(wrong, fmt.Sprintf("pool %s: server %s is down", p.name, s))
		}
	}
	return wrong, errors.Join(errs...)
}

// reload reads the file again. A pool with other servers, or another way to choose
// among them, changes under its clients, and so does one with other users, but for the
// clients of those; one with another address, password,
// database, tag or number of clients, or that comes to be a cluster or is none any more, is opened anew, and its clients are closed
// once they have their replies. Certificates are read again, for connections to come. A file with an error changes nothing.
func (h *poolHost) reload(http string) {
	file, err := readPools(h.flags.pools, h.password)
	if err != nil {
		h.log.Error("the file of pools is not taken: the pools stay as they are", slog.Any("error", err))
		return
	}
	for _, w := range file.Warnings {
		h.log.Warn("the file of pools", slog.String("warning", w))
	}
	var keep []*servedPool
	var open []poolfile.Pool
	for _, c := range file.Pools {
		old := h.find(c)
		if old == nil {
			open = append(open, c)
			continue
		}
		keep = append(keep, old)
		if err := h.change(old, c, file.tls[c.Name]); err != nil {
			h.log.Error("a pool stays as it is", slog.String("pool", c.Name), slog.Any("error", err))
		}
	}
	for _, p := range h.now() {
		if !slices.Contains(keep, p) {
			h.leave(p)
		}
	}
	h.mu.Lock()
	h.pools = keep
	h.mu.Unlock()
	for _, c := range open {
		if err := h.open(c, file.tls[c.Name]); err != nil {
			h.log.Error("a pool is not served", slog.String("pool", c.Name), slog.Any("error", err))
			continue
		}
		all := h.now()
		h.serve(all[len(all)-1], http)
	}
	h.log.Info("the file of pools was read again", slog.Int("pools", len(h.now())))
}

// find returns the pool that can become c without its clients being closed, or nil.
func (h *poolHost) find(c poolfile.Pool) *servedPool {
	for _, p := range h.now() {
		o := p.conf
		if o.Name == c.Name && o.Redis == c.Redis && o.Network == c.Network && o.Address == c.Address && o.Perm == c.Perm && o.HashTag == c.HashTag && o.HasCluster() == c.HasCluster() &&
			o.ListenTLS == c.ListenTLS && hasDefaultUser(o) == hasDefaultUser(c) && o.RedisAuth == c.RedisAuth && o.RedisDB == c.RedisDB && o.ClientConnections == c.ClientConnections {
			return p
		}
	}
	return nil
}

// change gives a pool the servers of c.
func (h *poolHost) change(p *servedPool, c poolfile.Pool, t poolTLS) error {
	r, ok := p.front.(*redisPool)
	if ok = ok && !maps.Equal(usersOf(p.conf), usersOf(c)); ok {
		if err := r.SetUsers(usersOf(c), h.flags.drainTimeout); err != nil {
			return err
		}
		h.log.Info("the users of a pool have changed", slog.String("pool", c.Name), slog.Int("users", len(c.Users)))
	}
	p.conf.Users = c.Users
	if p.held == t.held && reflect.DeepEqual(withoutLines(p.conf), withoutLines(c)) {
		p.tls.now.Store(t.listen)
		return nil
	}
	retire, err := p.front.change(c, t)
	if err != nil {
		if ok {
			return fmt.Errorf("its users have changed, and the rest not: %w", err)
		}
		return err
	}
	p.tls.now.Store(t.listen)
	p.conf, p.held = c, t.held
	h.log.Info("a pool has changed", slog.String("pool", c.Name), slog.Int("servers", len(c.Servers)+len(c.Cluster)), slog.String("ring", p.front.digest()))
	h.leaving.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), h.flags.drainTimeout)
		defer cancel()
		retire(ctx)
	})
	return nil
}

// withoutLines is c without what doesn't matter to whoever serves it.
func withoutLines(c poolfile.Pool) poolfile.Pool {
	c.Line, c.Servers = 0, slices.Clone(c.Servers)
	for i := range c.Servers {
		c.Servers[i].Line = 0
	}
	c.Replicas = slices.Clone(c.Replicas)
	for i := range c.Replicas {
		c.Replicas[i].Line = 0
	}
	c.Sentinel.Masters = slices.Clone(c.Sentinel.Masters)
	for i := range c.Sentinel.Masters {
		c.Sentinel.Masters[i].Line = 0
	}
	return c
}

// leave ends a pool that is not in the file any more. It returns once nobody is let in.
func (h *poolHost) leave(p *servedPool) {
	h.log.Info("a pool ends", slog.String("pool", p.name))
	_ = p.listener.Close()
	h.leaving.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), h.flags.drainTimeout)
		defer cancel()
		_ = p.front.Shutdown(ctx)
		p.close()
	})
}
