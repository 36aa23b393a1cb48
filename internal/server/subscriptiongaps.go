package server

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// subscriptionGaps notes which clients lack a subscription on which server, because the server can't be
// reached. Messages that it publishes before the subscription stands again are lost. So these clients are
// closed before the server gets its first command again. They subscribe anew, and know that they may have
// missed messages.
type subscriptionGaps struct {
	mu    sync.Mutex
	of    map[*proxy.Node]map[*pooled]struct{} // clients whose subscription to the server is missing
	usual map[*proxy.Node]time.Duration        // how long a server with a gap took to answer
}

const (
	confirmPatience = 500 * time.Millisecond // see subscriptionGaps.patience
	// probePause is the time between two probes of a server; a probe costs nothing while the server is
	// known to be down.
	probePause = 20 * time.Millisecond
)

// patience is how long a server has to confirm a subscription that others have confirmed. A slow server
// gets more time than it took last. Otherwise its clients would be closed again and again.
func (a *subscriptionGaps) patience(n *proxy.Node) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return min(max(confirmPatience, 2*a.usual[n]), proxy.DefaultDialTimeout)
}

// has reports whether a server is known not to answer.
func (a *subscriptionGaps) has(n *proxy.Node) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[n] != nil
}

// noteGap has a client closed as soon as the server answers again.
func (t *poolTarget) noteGap(n *proxy.Node, c *pooled) {
	a := &t.gaps
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[n] == nil {
		if a.of == nil {
			a.of, a.usual = make(map[*proxy.Node]map[*pooled]struct{}), make(map[*proxy.Node]time.Duration)
		}
		a.of[n] = make(map[*pooled]struct{})
		t.srv.wg.Go(func() { t.awaitReturn(n) }) // c is counted in wg, so wg has not ended
	}
	a.of[n][c] = struct{}{}
	n.BeforeReturn(func() { t.closeGap(n) })
}

// closeGap closes the clients whose subscription to a server is missing.
func (t *poolTarget) closeGap(n *proxy.Node) {
	a := &t.gaps
	a.mu.Lock()
	clients := a.of[n]
	delete(a.of, n)
	a.mu.Unlock()
	t.closeSubscribers(n, clients)
}

// closeSubscribers closes clients that may have missed messages of a server.
func (t *poolTarget) closeSubscribers(n *proxy.Node, clients map[*pooled]struct{}) {
	for c := range clients {
		t.srv.opts.Logger.Info("a subscriber is closed, so that it subscribes again: a server of the pool is back", "client", c.id, "server", n.Name())
		c.drain(errMessagesLost)
	}
}

// forget removes a client that has ended its subscriptions.
func (a *subscriptionGaps) forget(c *pooled) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, clients := range a.of {
		delete(clients, c)
	}
}

// awaitReturn probes a server until it answers or has no subscribers left. If the server has kept its
// shared connections and lost only its connections to subscribers, awaitReturn closes these clients. In all other
// cases closeGap does.
func (t *poolTarget) awaitReturn(n *proxy.Node) {
	a := &t.gaps
	for {
		took, err := t.probe(n)
		if err == nil && took > confirmPatience/2 {
			took, err = t.probe(n) // the first probe may have begun while the server was down
		}
		back := err == nil && !n.Returning() // else closeGap is about to close them
		a.mu.Lock()
		over := back || len(a.of[n]) == 0 || t.srv.ctx.Err() != nil || !slices.Contains(t.pool.Load().Nodes(), n)
		if over {
			t.closeSubscribers(n, a.of[n])
			delete(a.of, n)
			n.BeforeReturn(nil) // now that they are closed
			maps.DeleteFunc(a.usual, func(o *proxy.Node, _ time.Duration) bool { return o == n || !slices.Contains(t.pool.Load().Nodes(), o) })
		}
		if err == nil && took > confirmPatience/2 {
			a.usual[n] = took
		}
		a.mu.Unlock()
		if over {
			return
		}
		select {
		case <-time.After(probePause):
		case <-t.srv.ctx.Done():
		}
	}
}

// probe sends a server a PING on a new connection.
func (t *poolTarget) probe(n *proxy.Node) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(t.srv.ctx, proxy.DefaultDialTimeout)
	defer cancel()
	begun := time.Now()
	l := &prober{answered: make(chan struct{}), gone: make(chan error, 1)}
	d, err := n.Dedicate(ctx, resp.RESP2, l)
	if err != nil {
		return 0, err
	}
	defer func() {
		d.Close()
		<-d.Done()
	}()
	if err = d.Send(0, 1, pingRaw); err != nil {
		return 0, err
	}
	d.Flush()
	select {
	case <-l.answered:
		return time.Since(begun), nil
	case err = <-l.gone:
		return 0, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// A prober waits for a reply.
type prober struct {
	once     sync.Once
	answered chan struct{}
	gone     chan error
}

// Reply implements proxy.ReplyHandler. An error is an answer too, because PING may be renamed. The only
// exception is the fault of another Redoubt, which stands in front of a server that is down.
func (l *prober) Reply(_ uint64, raw []byte) bool {
	if !bytes.HasPrefix(raw, []byte("-ERR redoubt: ")) {
		l.once.Do(func() { close(l.answered) })
	}
	return false
}

// Fail implements proxy.Failer: the server has not answered.
func (*prober) Fail(uint64, *proxy.Fault) bool { return false }

// Flush implements proxy.ReplyHandler.
func (*prober) Flush() {}

// Push implements proxy.Listener.
func (*prober) Push([]byte) bool { return false }

// Gone implements proxy.Listener.
func (l *prober) Gone(err error) { l.gone <- err }
