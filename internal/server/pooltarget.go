package server

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/hotkeys"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A poolTarget is a pool of servers, or a cluster.
type poolTarget struct {
	srv       *Server
	pool      atomic.Pointer[proxy.Pool]
	home      int              // the database
	hot       *hotkeys.Sketch  // keys that clients ask for
	coalescer coalescer        // of replies
	gaps      subscriptionGaps // of servers
	conn      *poolConn        // what extension commands wait with; nil: they are refused
	followed  servers          // by conn; of the tick
}

func newPoolTarget(s *Server, pool *proxy.Pool) *poolTarget {
	t := &poolTarget{srv: s, home: pool.Nodes()[0].Backend().Database(), hot: hotkeys.New(time.Now())}
	t.pool.Store(pool)
	return t
}

func (t *poolTarget) open(c *session, _ net.Conn) route {
	p := t.pool.Load()
	r := &pooled{session: c, target: t, topology: topology{p, p.Slots()}, sender: sender{c: c}}
	r.asked.hot, r.multi.c = t.hot, r
	if r.slots != nil || len(p.Nodes()) > 1 {
		c.out.coalescer = &t.coalescer
	}
	return r
}

func (t *poolTarget) addHandlers(func(h handler, names ...string)) {} // see pooled.run

func (t *poolTarget) name() string      { return t.pool.Load().Nodes()[0].Backend().Name() }
func (t *poolTarget) database() int     { return t.home }
func (t *poolTarget) polled() bool      { return true }
func (t *poolTarget) remote() bool      { return true }
func (t *poolTarget) usersBehind() bool { return false }
func (t *poolTarget) tick()             { t.checkPlaces() }
func (t *poolTarget) disconnect()       { _ = t.pool.Load().Close() }

func (t *poolTarget) close() {
	if t.conn != nil {
		_ = t.srv.opts.Client.Close()
	}
}

func (t *poolTarget) upstream(p resp.Protocol) (*proxy.Upstream, error) { return t.pool.Load().Any(p) }

func (t *poolTarget) stats() []UpstreamStats { return nil }

func (t *poolTarget) dirty(context.Context, []*session) map[*session]bool { return nil }

// client returns the client with which extension commands wait and undo. It is nil where the pool
// refuses these commands.
func (t *poolTarget) client() (*redoubt.Client, error) {
	if t.pool.Load().Options().Tag != braces {
		return nil, nil //nolint:nilnil // there need not be one
	}
	t.conn = &poolConn{t: t}
	// The pool itself finds out which of its servers are down.
	return redoubt.New(t.conn, redoubt.Options{DownAfter: -1, Prefix: t.srv.opts.Prefix})
}

// set replaces the pool and returns the old one.
func (t *poolTarget) set(p *proxy.Pool) (old *proxy.Pool) {
	old = t.pool.Swap(p)
	if t.conn != nil {
		t.conn.follow()
	}
	return old
}

// hasReplicas reports whether a server of the pool has any.
func (t *poolTarget) hasReplicas() bool {
	return slices.ContainsFunc(t.pool.Load().Nodes(), func(n *proxy.Node) bool { return len(n.Replicas()) > 0 })
}

// tagHint says how to bring keys together.
func (t *poolTarget) tagHint() string {
	tag := t.pool.Load().Options().Tag
	if tag == "" {
		return "; with a hash_tag in its configuration, keys with the same text in it would have one"
	}
	return ": put the same text between " + tag[:1] + " and " + tag[1:] + " into all of them"
}

// servers identifies the servers of a pool at one time. The zero value is no time.
type servers struct {
	pool    *proxy.Pool
	changes uint64
}

// checkPlaces follows a change of the ring. When a key has a new server, the waits for it end. When a
// channel has a new server, its subscribers are closed.
func (t *poolTarget) checkPlaces() {
	pool := t.pool.Load()
	now := servers{pool, pool.Changes()}
	if t.conn != nil && pool.Slots() != nil && t.followed != now {
		t.followed = now
		t.conn.follow()
	}
	for _, s := range t.srv.clients() {
		c := s.route.(*pooled) //nolint:forcetypeassert // open has made it
		if p := c.waitsFor.Load(); p != nil && p.seen != now {
			p.seen = now
			if p.pool == pool && pool.Slots() != nil {
				continue // its server says so itself
			}
			if slices.ContainsFunc(p.keys, func(k []byte) bool { return pool.Pick(k) != p.node }) {
				p.moved()
			}
		}
		if sub := c.subscribed.Load(); sub != nil && !c.draining.Load() && sub.misplaced(now) {
			t.srv.opts.Logger.Warn("a subscriber is closed, so that it subscribes again: the servers of the pool have changed", "client", c.id)
			c.drain(errMoved)
		}
	}
}

// HotKeys returns at most n keys of the pool, the most requested first. Keys of Redoubt's own commands
// don't count. Without [Options.Pool] there are none.
func (s *Server) HotKeys(n int) []hotkeys.Key {
	t, ok := s.target.(*poolTarget)
	if !ok {
		return nil
	}
	return t.hot.Top(n, time.Now())
}

// shownHotKeys is how many INFO shows.
const shownHotKeys = 16

func (t *poolTarget) appendHotKeys(b *strings.Builder) {
	for i, k := range t.hot.Top(shownHotKeys, time.Now()) {
		fmt.Fprintf(b, "hotkey%d:key=%q,per_second=%.1f,error=%.1f\r\n", i, k.Key, k.PerSecond, k.Error)
	}
}

// SetPool replaces the pool and returns the old one. The new pool needs the same tag, database and
// password. A client's commands go to the new pool once it has its replies from the old one. The old
// pool still answers the commands in flight, so end it by [proxy.Pool.Retire].
//
// A client that waits for a key, as in BLPOP, gets an error. A subscriber is closed, so that it
// subscribes anew. A transaction finds its watched keys changed.
//
// SetPool panics without [Options.Pool].
func (s *Server) SetPool(p *proxy.Pool) (old *proxy.Pool) {
	t, ok := s.target.(*poolTarget)
	if !ok {
		panic("server: SetPool without Options.Pool")
	}
	old = t.set(p)
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return old
}
