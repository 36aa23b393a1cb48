package server

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// CLIENT TRACKING is the back end's own, on the connection that the client has for itself: that is
// where it tells of keys. With REDIRECT it tells another client of Redoubt. That one is given an
// inbox, a connection in RESP3 on which the back end tells of all keys that others track for it, so
// it hears of them whether or not it has a connection of its own. The inbox lives as long as its
// client, so the back end notices the end of that as it would without Redoubt.

// A tracked is what CLIENT TRACKING ON has asked for.
type tracked struct {
	broadcast bool
	target    *session // that is told instead; nil: the client itself
	inbox     int64    // what the back end calls the inbox of target
}

// redirect is the id of the client that is told instead, as CLIENT LIST has it.
func (t *tracked) redirect() int64 {
	switch {
	case t == nil:
		return -1
	case t.target == nil:
		return 0
	}
	return int64(t.target.id) //nolint:gosec // counts clients
}

// broken reports whether the client that is told instead is gone.
func (t *tracked) broken() bool { return t != nil && t.target != nil && t.target.gone() }

// noClient is the id of no client of any back end.
const noClient = math.MaxInt64

// track answers CLIENT TRACKING. The back end checks the options; ids become its own.
func (d *dedicated) track(args [][]byte, raw []byte) {
	on := bytes.EqualFold(args[2], []byte("ON"))
	t := &tracked{}
	told := slices.Clone(args)
	for i := 3; i < len(args); i++ {
		switch {
		case bytes.EqualFold(args[i], []byte("BCAST")):
			t.broadcast = true
		case bytes.EqualFold(args[i], []byte("PREFIX")):
			i++
		case bytes.EqualFold(args[i], []byte("REDIRECT")) && i+1 < len(args):
			i++
			id, ok := resp.ParseInt(args[i])
			if !ok {
				continue
			}
			t.inbox, t.target = noClient, d.srv.client(id)
			if t.target != nil {
				var err error
				if t.inbox, err = directOf(t.target).openInbox(d.ctx); errors.Is(err, errGone) {
					t.inbox = noClient
				} else if err != nil {
					d.refused(err)
					return
				}
			}
			told[i] = strconv.AppendInt(nil, t.inbox, 10)
			raw = resp.AppendCommand(nil, told...)
		}
	}
	d.forward(raw, func(dst, raw []byte) []byte {
		switch {
		case !bytes.Equal(raw, okRaw):
		case on:
			d.tracked.Store(t)
		default:
			d.tracked.Store(nil)
		}
		return append(dst, raw...)
	})
}

// ownRedirect is the reply to CLIENT GETREDIR and TRACKINGINFO. It replaces the id of an inbox by the
// id of the client that owns the inbox.
func (d *dedicated) ownRedirect(dst, raw []byte) []byte {
	return append(dst, d.withOwnID(raw)...)
}

func (d *dedicated) withOwnID(raw []byte) []byte {
	t := d.tracked.Load()
	if t == nil || t.target == nil {
		return raw
	}
	return bytes.Replace(raw, resp.AppendInt(nil, t.inbox), resp.AppendInt(nil, t.redirect()), 1)
}

var redirBroken = resp.AppendBulk(resp.AppendPush(nil, resp.RESP3, 2), "tracking-redir-broken")

// An inbox is a session's connection for invalidations of keys that others track.
type inbox struct {
	mu     sync.Mutex
	closed bool
	d      atomic.Pointer[proxy.Dedicated] // nil: nobody has asked for it; written under mu
}

// openInbox opens the session's inbox, unless it is open, and returns what the back end calls it.
// Any goroutine may call it. The error matches errGone when the client is ending.
func (r *direct) openInbox(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, proxy.DefaultDialTimeout)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	r.inbox.mu.Lock()
	defer r.inbox.mu.Unlock()
	if r.inbox.closed || r.gone() {
		return 0, errGone
	}
	if d := r.inbox.d.Load(); d != nil {
		return d.LearnID(ctx)
	}
	opts := r.target.options(resp.RESP3)
	opts.Scripts = nil // none is run there
	d, err := proxy.OpenDedicated(ctx, opts, invalidations{r.session})
	if err != nil {
		return 0, err
	}
	r.inbox.d.Store(d)
	r.srv.stats.dedicated.Add(1)
	return d.LearnID(ctx)
}

// closeInbox is called once the session's context has ended.
func (r *direct) closeInbox() {
	r.inbox.mu.Lock()
	r.inbox.closed = true
	d := r.inbox.d.Load()
	r.inbox.mu.Unlock()
	if d != nil {
		d.Close()
		<-d.Done()
		r.srv.stats.dedicated.Add(-1)
	}
}

// invalidations is the [proxy.Listener] of a session's inbox.
type invalidations struct{ c *session }

// Reply implements proxy.Caller: nothing is asked in the session's name.
func (invalidations) Reply(uint64, []byte) bool { return false }

// Flush implements proxy.Caller. A poller's connection is its own to write to, so the session
// leaves it first, and then writes.
func (i invalidations) Flush() {
	o := &i.c.out
	o.mu.Lock()
	unable := o.unable
	o.mu.Unlock()
	if unable {
		i.c.leaveSoon()
		return
	}
	o.Flush()
}

var (
	invalidate        = resp.AppendBulk(resp.AppendPush(nil, resp.RESP3, 2), "invalidate")
	invalidateMessage = resp.AppendBulk(resp.AppendBulk(resp.AppendArray(nil, 3), "message"), "__redis__:invalidate")
)

// Push implements proxy.Listener. In RESP2 there are messages for a client that has subscribed to
// something, and nothing for others, as in Redis.
func (i invalidations) Push(raw []byte) bool {
	c := i.c
	keys, ok := bytes.CutPrefix(raw, invalidate)
	if !ok {
		return false
	}
	c.mu.Lock()
	p := c.shownProtocol
	c.mu.Unlock()
	if isNull(keys) { // in the protocol of whoever tracks
		keys = resp.AppendNull(nil, p)
	}
	switch {
	case p == resp.RESP3:
		return c.out.Push(slices.Concat(invalidate, keys))
	case c.inPubSub():
		return c.out.Push(slices.Concat(invalidateMessage, keys))
	}
	return false
}

// Gone implements proxy.Listener. Invalidations may be lost, so the client is closed.
func (i invalidations) Gone(err error) {
	if i.c.ctx.Err() != nil {
		return
	}
	i.c.srv.opts.Logger.Warn("a client's connection for invalidations was lost", "client", i.c.id, "error", err)
	i.c.drain(errUnheard)
}
