package engine

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// tracking tells clients that keys in their caches were changed: CLIENT TRACKING. The clients that
// have read a key are kept in the key's shard, the clients that track prefixes here.
type tracking struct {
	n          atomic.Int32 // sessions that track
	keys       atomic.Int64 // keys remembered in all shards
	bytes      atomic.Int64 // of their names
	broadcasts atomic.Int32
	mu         sync.Mutex // taken after the locks of shards
	broadcast  map[*tracker]struct{}
	all        map[*tracker]struct{}
}

// A tracker is one CLIENT TRACKING ON. Entries for it are ignored after CLIENT TRACKING OFF.
type tracker struct {
	s         *Session
	redirect  int64 // the session that gets the messages instead, 0 for none
	broadcast bool
	prefixes  [][]byte
	optIn     bool
	optOut    bool
	noLoop    bool
	off       atomic.Bool
	broken    atomic.Bool // the session of redirect is gone

	// Of the session's goroutine.
	caching byte // 'y' or 'n' after CLIENT CACHING, for the next command
}

// track replaces the session's tracker.
func (s *Session) track(t *tracker) {
	tr := &s.e.tracking
	old := s.tracker.Load()
	if old == nil && t == nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if old != nil {
		old.off.Store(true)
		delete(tr.broadcast, old)
		delete(tr.all, old)
	}
	if tr.all == nil {
		tr.all, tr.broadcast = map[*tracker]struct{}{}, map[*tracker]struct{}{}
	}
	if t != nil {
		tr.all[t] = struct{}{}
		if t.broadcast {
			tr.broadcast[t] = struct{}{}
		}
	}
	tr.n.Store(int32(len(tr.all)))                //nolint:gosec // counts sessions
	tr.broadcasts.Store(int32(len(tr.broadcast))) //nolint:gosec // counts sessions
	s.tracker.Store(t)
}

// hasRead reports whether the command read its keys. A script did when any of
// its commands reads, whichever key that is.
func (c *call) hasRead() bool {
	if c.cmd.RunsScript() {
		return c.reads
	}
	return c.cmd.flags&flagReadonly != 0
}

// remember notes which keys the session has read. Their shards are held.
func (c *call) remember() {
	t := c.s.tracker.Load()
	if t == nil || t.broadcast || !c.hasRead() ||
		t.optIn && t.caching != 'y' || t.optOut && t.caching == 'n' {
		return
	}
	for _, i := range c.cmd.keys(nil, c.args) {
		key := c.args[i]
		sh := c.shard(key)
		who := sh.tracked[string(key)]
		if who == nil {
			who = map[*tracker]struct{}{}
			if sh.tracked == nil {
				sh.tracked = map[string]map[*tracker]struct{}{}
			}
			sh.tracked[string(key)] = who
			c.e.tracking.keys.Add(1)
			c.e.tracking.bytes.Add(int64(len(key)))
		}
		who[t] = struct{}{}
		c.forgetSome(sh)
	}
}

// forgetSome keeps to the limit of keys.
func (c *call) forgetSome(sh *shard) {
	most := c.e.config.tracked.Load()
	for key := range sh.tracked {
		tr := &c.e.tracking
		if (most <= 0 || tr.keys.Load() <= most) && tr.bytes.Load() <= int64(c.e.bounds.tracked) {
			return
		}
		c.forget(sh, []byte(key), nil)
	}
}

func (c *call) forgetMany() { c.e.eachShard(c, c.forgetSome) }

// invalidate tells the clients that have read key that it has changed, and notes it for clients
// that track prefixes. The key's shard is locked.
func (c *call) invalidate(sh *shard, key []byte) {
	c.forget(sh, key, c.s)
	if c.e.tracking.broadcasts.Load() > 0 {
		c.broadcast = append(c.broadcast, clone(key))
	}
}

// forget tells the clients that have read key that it may have changed. by is the session that
// changed it, nil for none.
func (c *call) forget(sh *shard, key []byte, by *Session) {
	if who := sh.tracked[text(key)]; who != nil {
		delete(sh.tracked, text(key))
		c.e.tracking.keys.Add(-1)
		c.e.tracking.bytes.Add(-int64(len(key)))
		for t := range who {
			if !t.noLoop || t.s != by {
				t.tell(c, key)
			}
		}
	}
}

// infoTracking writes the counts of keys, of readers that still track, and of prefixes.
func (e *Engine) infoTracking(c *call, b *strings.Builder) {
	items := 0
	e.eachShard(c, func(sh *shard) {
		for _, who := range sh.tracked {
			for t := range who {
				if !t.off.Load() {
					items++
				}
			}
		}
	})
	prefixes := map[string]struct{}{}
	e.tracking.mu.Lock()
	for t := range e.tracking.broadcast {
		for _, p := range t.prefixes {
			prefixes[string(p)] = struct{}{}
		}
	}
	e.tracking.mu.Unlock()
	fmt.Fprintf(b, "tracking_total_keys:%d\r\ntracking_total_items:%d\r\ntracking_total_prefixes:%d\r\n", e.tracking.keys.Load(), items, len(prefixes))
}

// send delivers a message. The message to a client whose blocked command is served by this call
// goes behind that command's reply.
func (c *call) send(to *Session, frame []byte) {
	if c.only != nil && to == c.s {
		c.behind = append(c.behind, frame...)
		return
	}
	to.deliver(frame)
}

// sendBroadcast sends the keys that a command or a transaction changed.
func (c *call) sendBroadcast() {
	keys := c.broadcast
	c.broadcast = nil
	tr := &c.e.tracking
	tr.mu.Lock()
	var trackers []*tracker
	for t := range tr.broadcast {
		trackers = append(trackers, t)
	}
	tr.mu.Unlock()
	for _, t := range trackers {
		if t.noLoop && t.s == c.s {
			continue
		}
		for _, prefix := range t.prefixes {
			var hit [][]byte
			seen := map[string]struct{}{}
			for _, k := range keys {
				if _, twice := seen[text(k)]; !twice && bytes.HasPrefix(k, prefix) {
					seen[text(k)] = struct{}{}
					hit = append(hit, k)
				}
			}
			if len(hit) > 0 {
				t.tell(c, hit...)
			}
		}
	}
}

// invalidateAll tells every tracking client that all keys may have changed.
func (c *call) invalidateAll() {
	tr := &c.e.tracking
	if tr.n.Load() == 0 && tr.keys.Load() == 0 {
		return
	}
	for i := range c.e.shards {
		tr.keys.Add(-int64(len(c.e.shards[i].tracked)))
		tr.bytes.Store(0) // every shard is held
		c.e.shards[i].tracked = nil
	}
	tr.mu.Lock()
	var trackers []*tracker
	for t := range tr.all {
		trackers = append(trackers, t)
	}
	tr.mu.Unlock()
	for _, t := range trackers {
		t.tell(c)
	}
}

var invalidateChannel = []byte("__redis__:invalidate")

// tell sends an invalidation of keys, or of all keys when there are none.
func (t *tracker) tell(c *call, keys ...[]byte) {
	if t.off.Load() {
		return
	}
	to := t.s
	if t.redirect != 0 {
		if to = t.s.e.clients.get(t.redirect); to == nil {
			t.broken.Store(true)
			if t.s.pushProtocol() == resp.RESP3 {
				b := resp.AppendPush(nil, resp.RESP3, 2)
				b = resp.AppendBulk(b, "tracking-redir-broken")
				t.s.deliver(resp.AppendInt(b, t.redirect))
			}
			return
		}
	}
	p := to.pushProtocol()
	var b []byte
	switch {
	case p == resp.RESP3:
		b = resp.AppendBulk(resp.AppendPush(nil, p, 2), "invalidate")
	case t.redirect != 0 && to.isPubSub():
		b = resp.AppendBulk(resp.AppendArray(nil, 3), "message")
		b = resp.AppendBulk(b, invalidateChannel)
	default:
		return // in RESP2 it would look like a reply
	}
	if len(keys) == 0 {
		c.send(to, resp.AppendNullArray(b, p))
		return
	}
	b = resp.AppendArray(b, len(keys))
	for _, k := range keys {
		b = resp.AppendBulk(b, k)
	}
	c.send(to, b)
}
