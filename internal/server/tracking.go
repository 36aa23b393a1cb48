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

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// CLIENT TRACKING runs on the back end, on the client's own connection. Invalidations come there. With
// REDIRECT they go to another client of Redoubt. That client gets an inbox: a connection in RESP3 for the
// invalidations of all keys that others track for it. The inbox lives as long as its client, and as long
// as some client tracks for it. So the back end notices the end of either as it would without Redoubt.

// A tracked is what CLIENT TRACKING ON has asked for.
type tracked struct {
	broadcast bool
	target    *session // that is told instead; nil: the client itself
	inbox     int64    // what the back end calls the inbox of target
	held      bool     // target counts this as one that tracks for it; of the tracking session
}

// release is for a tracked that is over, or has not come to be.
func (t *tracked) release() {
	if t != nil && t.held {
		t.held = false
		directOf(t.target).leaveInbox()
	}
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
	before, t := d.tracked.Load(), &tracked{}
	var earlier []*tracked // of more than one REDIRECT, which the back end refuses
	defer func() {
		for _, o := range earlier {
			o.release()
		}
	}()
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
			if t.held {
				earlier = append(earlier, &tracked{target: t.target, held: true})
				t.held = false
			}
			t.inbox, t.target = noClient, d.srv.client(id)
			if t.target != nil {
				var err error
				t.inbox, err = directOf(t.target).openInbox(d.ctx)
				t.held = err == nil
				if errors.Is(err, errGone) {
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
	if !t.held && len(earlier) == 0 && (before == nil || !before.held) {
		return
	}
	d.settle() // if it fails the session ends, and with it what is tracked
	for _, o := range []*tracked{before, t} {
		if o != d.tracked.Load() {
			o.release()
		}
	}
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
	mu       sync.Mutex
	closed   bool
	trackers int                           // clients that track for this one
	opened   uint64                        // how often such a client has come
	conn     atomic.Pointer[invalidations] // nil: there is none; written under mu
	ends     sync.WaitGroup                // connections that have not ended
}

// openInbox opens the session's inbox, unless it is open, and returns what the back end calls it.
// leaveInbox must follow once nobody is told there in the caller's name any more. Any goroutine may
// call it. The error matches errGone when the client is ending.
func (r *direct) openInbox(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, proxy.DefaultDialTimeout)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	defer r.inbox.endUnused()
	r.inbox.mu.Lock()
	defer r.inbox.mu.Unlock()
	if r.inbox.closed || r.gone() {
		return 0, errGone
	}
	i := r.inbox.conn.Load()
	if i == nil {
		i = &invalidations{r: r}
		opts := r.target.options(resp.RESP3)
		opts.Scripts = nil // none is run there
		r.inbox.ends.Add(1)
		r.srv.stats.dedicated.Add(1)
		var err error
		if i.d, err = proxy.OpenDedicated(ctx, opts, i); err != nil {
			i.forget()
			return 0, err
		}
		r.inbox.conn.Store(i)
	}
	id, err := i.d.LearnID(ctx)
	if err != nil {
		return 0, err
	}
	r.inbox.trackers++
	r.inbox.opened++
	return id, nil
}

// leaveInbox is called when one that openInbox was called for has ended.
func (r *direct) leaveInbox() {
	r.inbox.mu.Lock()
	r.inbox.trackers--
	r.inbox.mu.Unlock()
	r.inbox.endUnused()
}

// endUnused has the connection closed, if nobody needs it, once all invalidations that the back end
// has sent there have come: a reply follows them. It may come before endUnused returns, and needs mu.
func (b *inbox) endUnused() {
	b.mu.Lock()
	i, tag := b.conn.Load(), b.opened
	unused := i != nil && b.trackers == 0 && !b.closed
	b.mu.Unlock()
	if unused && i.d.Send(tag, 1, askID) == nil { // else it is lost
		i.d.Flush()
	}
}

// askID is a command that the back end of an inbox has answered before.
var askID = resp.AppendCommand(nil, "CLIENT", "ID")

// closeInbox is called once the session's context has ended.
func (r *direct) closeInbox() {
	r.inbox.mu.Lock()
	r.inbox.closed = true
	i := r.inbox.conn.Load()
	r.inbox.mu.Unlock()
	if i != nil {
		i.d.Close()
	}
	r.inbox.ends.Wait()
}

// invalidations is the [proxy.Listener] of a session's inbox.
type invalidations struct {
	r      *direct
	d      *proxy.Dedicated
	unused atomic.Bool // it is closed because nobody needs it
}

// forget takes the connection out of what is counted.
func (i *invalidations) forget() {
	i.r.srv.stats.dedicated.Add(-1)
	i.r.inbox.ends.Done()
}

// Reply implements proxy.ReplyHandler, for the command of endUnused. tag is the number of the last tracker
// at that time. If mu is held, its holder may wait for another reply. It then calls endUnused, or adds a
// tracker.
func (i *invalidations) Reply(tag uint64, raw []byte) bool {
	b := &i.r.inbox
	if raw[0] == '-' || !b.mu.TryLock() {
		return false
	}
	defer b.mu.Unlock()
	if b.trackers == 0 && b.opened == tag && b.conn.CompareAndSwap(i, nil) {
		i.unused.Store(true)
		i.d.Close()
	}
	return false
}

// Flush implements proxy.ReplyHandler. A poller's connection is its own to write to, so the session
// leaves it first, and then writes.
func (i *invalidations) Flush() {
	o := &i.r.out
	o.mu.Lock()
	unable := o.unable
	o.mu.Unlock()
	if unable {
		i.r.leavePollerSoon()
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
func (i *invalidations) Push(raw []byte) bool {
	c := i.r.session
	keys, ok := bytes.CutPrefix(raw, invalidate)
	if !ok {
		return false
	}
	p := c.info.get().protocol
	if isNull(keys) { // in the protocol of whoever tracks
		keys = resp.AppendNull(nil, p)
	}
	switch {
	case p == resp.RESP3:
		return c.out.Push(slices.Concat(invalidate, keys))
	case isType(c, "pubsub"):
		return c.out.Push(slices.Concat(invalidateMessage, keys))
	}
	return false
}

// Gone implements proxy.Listener. Invalidations may be lost, so the client is closed.
func (i *invalidations) Gone(err error) {
	defer i.forget()
	if i.unused.Load() || i.r.ctx.Err() != nil {
		return
	}
	i.r.srv.opts.Logger.Warn("a client's connection for invalidations was lost", "client", i.r.id, "error", err)
	i.r.drain(errMessagesLost)
}
