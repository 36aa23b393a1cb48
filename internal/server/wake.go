package server

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A wake is a subscription to one channel on every server of the pool, because a script that
// releases a lock publishes on the server that has the lock. In a cluster one node is enough: the
// node of the channel's slot, which has the lock too. (Messages of a channel that is not sharded
// reach all nodes, so any node would do.)
type wake struct {
	channel string
	sharded bool // the channel belongs to a slot of a cluster
	place   func() *proxy.Node
	on      func(payload string, lost bool)

	mu    sync.Mutex // on is called with it held
	nodes map[*proxy.Node]context.CancelFunc
	stop  context.CancelFunc
	ctx   context.Context //nolint:containedctx // until stop
	wg    sync.WaitGroup
}

// firstWake is how long Subscribe waits for servers that don't answer. The subscription to such
// a server is made when it answers, and its waiters are woken then.
const firstWake = confirmPatience

// Subscribe implements redoubt.Subscriber.
func (p *poolConn) Subscribe(ctx context.Context, channel string, sharded bool, on func(payload string, lost bool)) (stop func(), err error) {
	place := func() *proxy.Node { return p.t.pool.Load().Pick([]byte(channel)) }
	w := &wake{channel: channel, sharded: sharded && p.t.pool.Load().Slots() != nil, place: place, on: on, nodes: make(map[*proxy.Node]context.CancelFunc)}
	w.ctx, w.stop = context.WithCancel(context.Background())
	p.mu.Lock()
	if p.wakes == nil {
		p.wakes = make(map[*wake]struct{})
	}
	p.wakes[w] = struct{}{}
	tried := w.follow(p.t.pool.Load())
	p.mu.Unlock()
	stop = func() {
		p.mu.Lock()
		delete(p.wakes, w)
		p.mu.Unlock()
		w.stop()
		w.wg.Wait()
	}
	patience := time.NewTimer(firstWake)
	defer patience.Stop()
	for _, c := range tried {
		select {
		case <-c:
		case <-patience.C:
			return stop, nil
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		}
	}
	return stop, nil
}

// follow subscribes to all channels on the servers of a pool that has replaced another.
func (p *poolConn) follow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.wakes {
		w.follow(p.t.pool.Load())
	}
}

// follow listens on the servers of pool and on no others. It returns a channel for each new server,
// closed once the first attempt to listen there is over.
func (w *wake) follow(pool *proxy.Pool) (tried []chan struct{}) {
	before := w.nodes
	listened := len(before) > 0
	w.nodes = make(map[*proxy.Node]context.CancelFunc)
	nodes := pool.Nodes()
	if slots := pool.Slots(); slots != nil {
		nodes = []*proxy.Node{slots.Pick([]byte(w.channel))}
	}
	for _, n := range nodes {
		if cancel, same := before[n]; same {
			w.nodes[n] = cancel
			delete(before, n)
			continue
		}
		ctx, cancel := context.WithCancel(w.ctx)
		w.nodes[n] = cancel
		first := make(chan struct{})
		tried = append(tried, first)
		again := listened // others were listened to: something may have been missed
		w.wg.Go(func() { w.listen(ctx, n, first, again) })
	}
	for _, cancel := range before {
		cancel()
	}
	return tried
}

const (
	minWakeDelay = 10 * time.Millisecond
	maxWakeDelay = 100 * time.Millisecond // an attempt costs nothing while the server is known to be down
)

// listen listens on one server, and again whenever the connection is lost.
func (w *wake) listen(ctx context.Context, n *proxy.Node, first chan struct{}, again bool) { //nolint:revive // the parameter is the state
	delay := minWakeDelay
	over := sync.OnceFunc(func() { close(first) })
	verb, family := "SUBSCRIBE", proxy.Channels
	if w.sharded {
		verb, family = "SSUBSCRIBE", proxy.Shards
	}
	defer over()
	for ctx.Err() == nil {
		l := &wakeListener{wake: w, node: n, again: again, tried: over, ended: make(chan struct{})}
		d, err := n.Dedicate(ctx, resp.RESP2, l)
		if err == nil {
			err = d.SendExpecting(0, proxy.Expect{Subscription: family, Channels: 1}, resp.AppendCommand(nil, verb, w.channel))
			if err == nil {
				d.Flush()
				select {
				case <-l.ended:
				case <-ctx.Done():
				}
			}
			d.Close()
			<-d.Done()
		}
		over()
		if l.heard {
			delay = minWakeDelay
		}
		again = true
		if w.sharded {
			n = w.place() // its slot may have moved
		}
		t := time.NewTimer(delay/2 + rand.N(delay/2)) //nolint:gosec // jitter
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
		delay = min(2*delay, maxWakeDelay)
	}
}

// A wakeListener gets what one server publishes.
type wakeListener struct {
	wake  *wake
	node  *proxy.Node
	again bool // messages may have been missed
	tried func()
	end   sync.Once
	ended chan struct{} // closed when nothing is heard any more

	heard bool // the server has confirmed; read once the connection is done
}

// Reply implements proxy.ReplyHandler: an empty one follows the confirmation.
func (l *wakeListener) Reply(_ uint64, raw []byte) bool {
	if len(raw) > 0 { // an error
		l.node.Redirects(raw) // has the nodes asked who has the slot
		l.end.Do(func() { close(l.ended) })
		return false
	}
	l.heard = true
	if l.again {
		l.wake.call("", true)
	}
	l.tried()
	return false
}

// Flush implements proxy.ReplyHandler.
func (l *wakeListener) Flush() {}

// Push implements proxy.Listener.
func (l *wakeListener) Push(raw []byte) bool {
	if !isMessage(raw) {
		if bytes.Contains(raw, []byte("unsubscribe\r\n")) { // the slot has gone
			l.end.Do(func() { close(l.ended) })
		}
		return false
	}
	v, _, err := resp.Parse(raw)
	if message, ok := v.([]any); ok && err == nil && len(message) == 3 {
		payload, _ := message[2].(string)
		l.wake.call(payload, false)
	}
	return false
}

// Gone implements proxy.Listener.
func (l *wakeListener) Gone(error) { l.end.Do(func() { close(l.ended) }) }

func (w *wake) call(payload string, lost bool) { //nolint:revive // as in redoubt.Subscriber
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on(payload, lost)
}
