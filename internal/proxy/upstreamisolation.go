package proxy

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// Limited reports whether the server, or another node of its cluster, limits its output buffers,
// so that it may close the connection for a large reply. It is false until the server has been
// asked.
func (u *Upstream) Limited() bool {
	if u.limited.Load() {
		return true
	}
	n := u.opts.clustered
	return n != nil && n.pool.cluster.limited.Load() > 0
}

// Congested reports whether a large reply is coming on the shared connection, so that a command
// should be isolated. It is false when half of the permits are taken: the rest is for large commands.
func (u *Upstream) Congested() bool {
	l := u.conn.Load()
	return l != nil && l.congested.Load() && u.isolation.roomy()
}

// isolatedConn returns a connection that nobody else uses. It comes back after the last reply.
func (u *Upstream) isolatedConn(wait func() context.Context, timeout time.Duration, ration bool) (*conn, error) { //nolint:revive // the parameter is what the command is
	shared, err := u.get()
	if err != nil { // it is known to be down
		return nil, err
	}
	ration = ration && (shared.congested.Load() || u.RecentlyBlocked() || u.isolation.huge.Load() > 1)
	if err := u.acquire(wait, timeout, ration); err != nil {
		return nil, err
	}
	if l := u.isolation.take(ration); l != nil {
		return l, nil
	}
	l, err := u.openIsolated(ration)
	if err != nil {
		u.isolation.release(ration)
	}
	return l, err
}

// openIsolated makes a connection. The caller has a permit.
func (u *Upstream) openIsolated(ration bool) (*conn, error) { //nolint:revive // the parameter is what the conn is for
	opts := u.opts
	opts.Scripts, opts.health, opts.slow, opts.limits = nil, health{}, nil, nil
	until := opts.until()
	ctx, cancel := context.WithTimeout(u.ctx, DefaultDialTimeout)
	defer cancel()
	conn, err := opts.openUntil(ctx, until)
	if err != nil {
		return nil, err
	}
	l := newConn(conn, false, opts)
	l.skips, l.lender, l.up, l.rationed = true, &u.isolation, u, ration
	if !u.isolation.add(l) {
		_ = conn.Close()
		return nil, errClosed
	}
	stay := context.AfterFunc(until, func() { l.close(context.Cause(until)) })
	go func() {
		defer u.isolation.running.Done()
		defer stay()
		err := l.read(firstIsolatedRead, l.reply)
		l.close(err)
		l.shrunk()
		u.isolation.forget(l)
		u.lost.Add(l.abandon())
	}()
	return l, nil
}

// noteLimits takes the reply to configLimits. An error leaves what was known.
func (u *Upstream) noteLimits(reply any) {
	if _, refused := reply.(resp.Error); refused {
		return
	}
	limited := limitsNormal(reply)
	if u.limited.Swap(limited) == limited {
		return
	}
	if n := u.opts.clustered; n != nil { // another node may be sent what this one refuses
		if limited {
			n.pool.cluster.limited.Add(1)
		} else {
			n.pool.cluster.limited.Add(-1)
		}
	}
}

// watchLimits asks for the limits until the upstream ends.
func (u *Upstream) watchLimits() {
	defer u.isolation.running.Done()
	t := time.NewTicker(limitsEvery)
	defer t.Stop()
	before := uint64(0)
	for {
		select {
		case <-u.ctx.Done():
			return
		case <-t.C:
		}
		if u.sent() == before && !u.limited.Load() { // with limits, commands may be isolated that are not in sent
			continue
		}
		c := limitsHandler{u, make(chan struct{})}
		if err := u.Send(c, 0, 1, configLimits); err == nil {
			u.Flush()
			<-c.answered
		}
		before = u.sent()
	}
}

// A limitsHandler gets the reply to configLimits.
type limitsHandler struct {
	u        *Upstream
	answered chan struct{}
}

// Reply implements [ReplyHandler].
func (c limitsHandler) Reply(_ uint64, raw []byte) bool {
	if v, _, err := resp.Parse(raw); err == nil {
		c.u.noteLimits(v)
	}
	close(c.answered)
	return false
}

// Flush implements [ReplyHandler].
func (c limitsHandler) Flush() {}

// limitsNormal reports whether the reply to CONFIG GET client-output-buffer-limit has a limit
// for normal clients, which are neither replicas nor subscribers.
func limitsNormal(reply any) bool {
	var text string
	pair, ok := reply.([]any)
	if m, resp3 := reply.(resp.Map); resp3 {
		pair, ok = m, true
	}
	if ok && len(pair) == 2 {
		text, _ = pair[1].(string)
	}
	f := strings.Fields(text)
	i := slices.Index(f, "normal")
	return i >= 0 && i+2 < len(f) && (f[i+1] != "0" || f[i+2] != "0")
}
