package poolhost

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/certs"
	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/poolfile"
	"github.com/redoubt-go/redoubt/internal/server"
)

// A pool is one pool of the file with its listeners. The goroutine that reloads owns conf, material and
// writes listeners.
type pool struct {
	name     string
	conf     poolfile.Pool
	material poolTLS
	front    front
	tls      *certs.Source // of the clients; nil: plain text
	unwatch  func()        // ends the watch of tls
	opened   time.Time

	mu        sync.Mutex
	listeners []net.Listener // one for each of conf.Listen
}

// A front serves the clients of a pool in the protocol of the pool's servers.
type front interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
	Close() error

	// drained returns what a Shutdown could not finish.
	drained() server.Drained
	// listen returns a listener for Serve.
	listen(network, address string) (net.Listener, error)
	// clients returns how many clients are connected.
	clients() int
	// needsPassword reports whether clients must authenticate.
	needsPassword() bool
	// digest returns a text that is equal for pools that map keys to servers alike.
	digest() string
	// health returns the names of the servers that answer, and of the others: see [Probe].
	health(ctx context.Context) (up, down []string)
	// change replaces the servers and keeps the clients. retire waits until no command needs the
	// former servers, or until ctx ends, and closes the connections to them.
	change(c poolfile.Pool, t poolTLS) (retire func(ctx context.Context), err error)
	// counters returns the statistics so far.
	counters() poolCounters
	// source returns what the dashboard shows of the pool. password is for people, if the pool has no users.
	source(in *pool, password string) dashboard.Source
}

// openPool connects a front to the servers of a pool and listens.
func openPool(c poolfile.Pool, t poolTLS, opts Options, password string) (_ *pool, err error) {
	p := &pool{name: c.Name, conf: c, material: t, opened: time.Now(), unwatch: func() {}}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	log := opts.Logger.With("pool", c.Name)
	var listen *tls.Config
	if t.listen != nil {
		p.tls = certs.NewSource(certs.Files(c.ListenTLS), t.listen)
		p.unwatch = p.tls.Follow(log)
		listen = p.tls.Config()
	}
	if c.Redis {
		p.front, err = openRedisPool(c, opts, password, listen, t, log)
	} else {
		p.front, err = openMemcachedPool(c, opts, listen, t.servers, log)
	}
	if err != nil {
		return nil, err
	}
	for _, at := range c.Listen {
		l, err := p.listen(at)
		if err != nil {
			return nil, err
		}
		p.listeners = append(p.listeners, l)
	}
	return p, nil
}

// listen opens one address for clients.
func (p *pool) listen(at poolfile.Listen) (net.Listener, error) {
	l, err := p.front.listen(at.Network, at.Address)
	switch {
	case errors.Is(err, server.ErrExposed):
		return nil, failure(ErrConfig, explainExposure(p.name, err))
	case err != nil:
		return nil, failure(ErrListen, fmt.Errorf("pool %q: %w", p.name, err))
	}
	if at.Perm != 0 {
		if err := os.Chmod(at.Address, os.FileMode(at.Perm)); err != nil {
			_ = l.Close()
			return nil, failure(ErrListen, fmt.Errorf("pool %q: %w", p.name, err))
		}
	}
	return l, nil
}

// listening returns the listeners.
func (p *pool) listening() []net.Listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.listeners)
}

// addresses returns where clients come in, separated by commas.
func (p *pool) addresses() string {
	var all []string
	for _, l := range p.listening() {
		all = append(all, l.Addr().String())
	}
	return strings.Join(all, ", ")
}

// stopListening closes the listeners.
func (p *pool) stopListening() {
	for _, l := range p.listening() {
		_ = l.Close()
	}
}

// close closes the listeners, the clients and the connections to the servers. A pool that openPool
// gave up on may lack any of them.
func (p *pool) close() {
	p.unwatch()
	p.stopListening()
	if p.front != nil {
		_ = p.front.Close()
	}
}
