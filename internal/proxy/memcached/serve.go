package memcached

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt/internal/socket"
)

// ErrClosed is what Serve returns after Shutdown or Close.
var ErrClosed = errors.New("memcached: the pool is closed")

// Serve answers the clients that l accepts, and closes it, until Shutdown, Close
// or a fault of l. Several listeners may be served at once.
func (p *Pool) Serve(l net.Listener) error {
	defer l.Close()
	p.mu.Lock()
	if p.isDraining() {
		p.mu.Unlock()
		return ErrClosed
	}
	p.listeners[l] = struct{}{}
	p.serving.Add(1)
	p.mu.Unlock()
	defer p.serving.Done()
	defer func() {
		p.mu.Lock()
		delete(p.listeners, l)
		p.mu.Unlock()
	}()
	for delay := firstDelay; ; {
		conn, err := l.Accept()
		var ne net.Error
		switch {
		case p.isDraining():
			if err == nil {
				_ = conn.Close()
			}
			return ErrClosed
		case err == nil:
			delay = firstDelay
			p.accept(conn)
		case errors.As(err, &ne) && ne.Timeout(), errors.Is(err, net.ErrClosed):
			return fmt.Errorf("memcached: pool %s: %w", p.opts.Name, err)
		default: // too many open files, mostly, which pass
			p.pause(delay)
			delay = min(2*delay, maxDelay)
		}
	}
}

// drain has nobody let in any more. The caller holds mu.
func (p *Pool) drain() {
	if !p.isDraining() {
		close(p.draining)
	}
}

func (p *Pool) isDraining() bool {
	select {
	case <-p.draining:
		return true
	default:
		return false
	}
}

// pause waits, or until the pool is drained.
func (p *Pool) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.draining:
	}
}

// accept begins to serve a client, or refuses it.
func (p *Pool) accept(conn net.Conn) {
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetKeepAlive(true)
	}
	c := p.newClient(conn)
	p.mu.Lock()
	full := p.opts.MaxClients > 0 && len(p.clients) >= p.opts.MaxClients
	if full || p.isDraining() {
		p.mu.Unlock()
		p.refused.Add(1)
		c.share.Leave()
		p.serving.Go(func() { refuse(c.conn) }) // a TLS handshake may wait
		return
	}
	p.clients[c] = struct{}{}
	p.serving.Add(1)
	p.mu.Unlock()
	p.accepted.Add(1)
	if l := c.loop; l != nil {
		if l.add(c) == nil {
			return
		}
		c.mu.Lock()
		c.leaveLoop()
		c.mu.Unlock()
	}
	go c.readLoop()
}

// refuse tells a client why it is closed.
func refuse(conn *socket.Conn) {
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, encrypted := conn.Conn.(*tls.Conn); encrypted {
		_, _ = conn.Write([]byte(errTooMany))
	} else {
		_, _ = conn.TryWrite([]byte(errTooMany)) // all of it: nothing was written before
	}
	_ = conn.Close()
	conn.Release()
}

// gone forgets a client.
func (p *Pool) gone(c *client) {
	p.mu.Lock()
	delete(p.clients, c)
	p.mu.Unlock()
	p.serving.Done()
}

// Shutdown stops accepting, reads no more commands, answers the commands that were read, and closes. When
// ctx ends first, it disconnects the remaining clients and returns ctx's error.
func (p *Pool) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.drain()
	for l := range p.listeners {
		_ = l.Close()
	}
	for c := range p.clients {
		_ = c.conn.SetReadDeadline(past) // what has been read is done first
	}
	p.mu.Unlock()
	drained := make(chan struct{})
	go func() {
		p.serving.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		return p.Close()
	case <-ctx.Done():
		p.mu.Lock()
		p.drained.Clients = len(p.clients)
		for c := range p.clients {
			c.mu.Lock()
			p.drained.Commands += uint64(c.inFlight) //nolint:gosec // not negative
			c.mu.Unlock()
		}
		p.mu.Unlock()
		return errors.Join(ctx.Err(), p.Close())
	}
}

// Drained is what a [Pool.Shutdown] could not finish.
type Drained struct {
	Clients  int    // disconnected because ctx had ended
	Commands uint64 // that got no answer
}

// Drained returns what the Shutdown that has returned could not finish.
func (p *Pool) Drained() Drained {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drained
}

// Close disconnects the clients and the servers, and waits until all has ended. It
// may be called more than once.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.drain()
	for l := range p.listeners {
		_ = l.Close()
	}
	for c := range p.clients {
		c.mu.Lock()
		c.kill()
		c.mu.Unlock()
	}
	groups := slices.Collect(maps.Keys(p.groups))
	p.mu.Unlock()
	for _, g := range groups {
		g.close()
	}
	p.serving.Wait()
	p.endLoops()
	return nil
}
