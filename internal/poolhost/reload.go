package poolhost

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt/internal/poolfile"
)

// Reload reads the file again and applies the difference: see the package's comment. A file with an
// error changes nothing. Reload logs what it did, and what it could not do.
func (h *Host) Reload() {
	file, err := Read(h.path, h.password)
	if err != nil {
		h.log.Error("reload failed: the pools stay as they are", slog.Any("error", err))
		return
	}
	for _, w := range file.Warnings {
		h.log.Warn("warning about the file of pools", slog.String("warning", w))
	}
	var keep []*pool
	var open []poolfile.Pool
	for _, c := range file.Pools {
		old := h.find(c)
		if old == nil {
			open = append(open, c)
			continue
		}
		keep = append(keep, old)
		if err := h.change(old, c, file.tls[c.Name]); err != nil {
			h.log.Error("pool not changed", slog.String("pool", c.Name), slog.Any("error", err))
		}
	}
	former := map[string]*pool{}
	for _, p := range h.current() {
		if !slices.Contains(keep, p) {
			h.remove(p)
			former[p.name] = p
		}
	}
	h.mu.Lock()
	h.pools = keep
	h.mu.Unlock()
	for _, c := range open {
		if err := h.open(c, file.tls[c.Name]); err != nil {
			h.log.Error("pool not opened", slog.String("pool", c.Name), slog.Any("error", err))
			old := former[c.Name]
			if old == nil || h.open(old.conf, old.material) != nil {
				continue
			}
			h.log.Info("the pool is open again as it was", slog.String("pool", c.Name))
		}
		all := h.current()
		h.serve(all[len(all)-1])
	}
	h.log.Info("reloaded the file of pools", slog.Int("pools", len(h.current())))
}

// find returns the pool that can become c and keep its clients, or nil.
func (h *Host) find(c poolfile.Pool) *pool {
	for _, p := range h.current() {
		o := p.conf
		if o.Name == c.Name && o.Redis == c.Redis && h.canMove(p, c) && o.HashTag == c.HashTag && o.HasCluster() == c.HasCluster() &&
			o.ListenTLS == c.ListenTLS && hasDefaultUser(o) == hasDefaultUser(c) && o.RedisAuth == c.RedisAuth && o.RedisDB == c.RedisDB && o.ClientConnections == c.ClientConnections {
			return p
		}
	}
	return nil
}

// canMove reports whether a pool can get the addresses of c while it keeps its own: none is taken now, as when two
// pools exchange their addresses, and its users stay, who decide which addresses it may have.
func (h *Host) canMove(p *pool, c poolfile.Pool) bool {
	if slices.Equal(p.conf.Listen, c.Listen) {
		return true
	}
	if !maps.Equal(usersOf(p.conf), usersOf(c)) {
		return false
	}
	for _, l := range c.Listen {
		for _, other := range h.current() {
			if other == p && slices.Contains(p.conf.Listen, l) {
				continue
			}
			if slices.ContainsFunc(other.conf.Listen, l.Overlaps) {
				return false
			}
		}
	}
	return true
}

// move opens a pool's new addresses and closes its missing ones. If one can't be opened, nothing changes.
func (h *Host) move(p *pool, to []poolfile.Listen) error {
	if slices.Equal(p.conf.Listen, to) {
		return nil
	}
	old := p.listening()
	var all, opened []net.Listener
	for _, at := range to {
		if i := slices.Index(p.conf.Listen, at); i >= 0 {
			all = append(all, old[i])
			continue
		}
		l, err := p.listen(at)
		if err != nil {
			for _, l := range opened {
				_ = l.Close()
			}
			return err
		}
		all, opened = append(all, l), append(opened, l)
	}
	for _, l := range opened {
		h.accept(p, l)
	}
	for _, l := range old {
		if !slices.Contains(all, l) {
			_ = l.Close()
		}
	}
	p.mu.Lock()
	p.listeners = all
	p.mu.Unlock()
	p.conf.Listen = to
	h.log.Info("changed the addresses of a pool", slog.String("pool", p.name), slog.String("listen", p.addresses()))
	return nil
}

// change gives a pool the addresses, users, certificates and servers of c. Only clients of changed users are
// closed.
func (h *Host) change(p *pool, c poolfile.Pool, t poolTLS) error {
	if err := h.move(p, c.Listen); err != nil {
		return err
	}
	r, ok := p.front.(*redisPool)
	if ok = ok && !maps.Equal(usersOf(p.conf), usersOf(c)); ok {
		if err := r.SetUsers(usersOf(c), h.opts.DrainTimeout); err != nil {
			return err
		}
		h.log.Info("changed the users of a pool", slog.String("pool", c.Name), slog.Int("users", len(c.Users)))
	}
	p.conf.Users = c.Users
	if p.material.digest == t.digest && reflect.DeepEqual(withoutLines(p.conf), withoutLines(c)) {
		p.setCertificates(t)
		return nil
	}
	retire, err := p.front.change(c, t)
	if err != nil {
		if ok {
			return fmt.Errorf("its users were changed, the rest was not: %w", err)
		}
		return err
	}
	p.setCertificates(t)
	p.conf, p.material = c, t
	h.log.Info("changed a pool", slog.String("pool", c.Name), slog.Int("servers", len(c.Servers)+len(c.Cluster)), slog.String("ring", p.front.digest()))
	h.leaving.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), h.opts.DrainTimeout)
		defer cancel()
		retire(ctx)
	})
	return nil
}

// setCertificates gives new clients the certificates that t has. The files are named as before: see find.
func (p *pool) setCertificates(t poolTLS) {
	if p.tls != nil {
		p.tls.Store(t.listen)
	}
}

// withoutLines returns c without its line numbers, which don't change how it is served.
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

// remove ends a pool that the file no longer has. It closes the listener before it returns, so that
// another pool can have the address; clients get DrainTimeout to finish.
func (h *Host) remove(p *pool) {
	began := time.Now()
	h.log.Info("closing a pool", slog.String("pool", p.name), slog.Int("clients", p.front.clients()), slog.Duration("timeout", h.opts.DrainTimeout))
	p.stopListening()
	h.leaving.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), h.opts.DrainTimeout)
		defer cancel()
		_ = p.front.Shutdown(ctx)
		left := p.front.drained()
		h.log.Info("closed a pool", slog.String("pool", p.name), slog.Int("clients_left", left.Clients),
			slog.Uint64("commands_cut", left.Commands), slog.Duration("took", time.Since(began)))
		p.close()
	})
}
