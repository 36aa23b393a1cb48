package cache

import (
	"context"
	"errors"

	"github.com/redoubt-go/redoubt"
	wire "github.com/redoubt-go/redoubt/internal/wire/cache"
)

// read reads one entry: by MGET of one key, which is merged with other callers' MGETs, or by a
// script if it has to learn the server's time.
func (c *Cache[K, V]) read(ctx context.Context, p place[K]) (entry, error) {
	sent := c.clock.mono()
	return c.readReply(c.sendOne(ctx, c.readCmd(p.entry, !c.clock.known())), sent)
}

func (c *Cache[K, V]) readCmd(key string, withTime bool) redoubt.Cmd {
	if withTime {
		return wire.TimedReadCmd(key)
	}
	return redoubt.Cmd{Name: "MGET", Keys: []string{key}, Flags: redoubt.ReadOnly}
}

// readReply reads the reply to a readCmd that was sent at some time.
func (c *Cache[K, V]) readReply(r redoubt.Reply, sent int64) (entry, error) {
	a, err := r.Array()
	switch {
	case err != nil:
		return entry{kind: kindNone}, err
	case len(a) == 1:
		r.Val = a[0]
	case len(a) == 2:
		now, err := (redoubt.Reply{Val: a[0]}).Int()
		if err != nil {
			return entry{}, err
		}
		c.clock.learn(sent, now)
		r.Val = a[1]
	}
	if r.Err != nil || r.IsNil() {
		return entry{kind: kindNone}, r.Err
	}
	raw, err := r.Text()
	return parseEntry(raw), err
}

// send sends commands in one round trip to each server and waits for at most Options.Timeout. It
// sends nothing while the server counts as down.
func (c *Cache[K, V]) send(ctx context.Context, cmds []redoubt.Cmd) []redoubt.Reply {
	switch len(cmds) {
	case 0:
		return nil
	case 1:
		return []redoubt.Reply{c.sendOne(ctx, cmds[0])}
	}
	if !c.server.allow() {
		replies := make([]redoubt.Reply, len(cmds))
		for i := range replies {
			replies[i].Err = errServerDown
		}
		return replies
	}
	bounded, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	replies := c.client.Pipeline(bounded, cmds)
	if ctx.Err() == nil { // otherwise the replies say nothing about the server
		up := true
		for _, r := range replies {
			up = c.answers(ctx, r) && up
		}
		c.server.done(up)
	}
	return replies
}

// sendOne is send for one command, the most frequent case.
func (c *Cache[K, V]) sendOne(ctx context.Context, cmd redoubt.Cmd) redoubt.Reply {
	if !c.server.allow() {
		return redoubt.Reply{Err: errServerDown}
	}
	bounded, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	r := c.client.Do(bounded, cmd)
	if ctx.Err() == nil {
		c.server.done(c.answers(ctx, r))
	}
	return r
}

// answers reports whether a reply comes from the server.
func (c *Cache[K, V]) answers(ctx context.Context, r redoubt.Reply) bool {
	if r.Err == nil {
		return true
	}
	c.emit(ctx, Event{Kind: ServerError, Err: r.Err})
	return isReply(r.Err)
}

// attempt asks for the leases of lookups. It settles lookups whose value has come meanwhile, and
// lookups that the server refuses for good. It returns in granted the lookups that may load: they
// have a lease, or no owner if the server can't be reached.
func (c *Cache[K, V]) attempt(ctx context.Context, fs []*lookup[K, V], waiter string) (granted []*lookup[K, V], held []waiting[K, V]) {
	cmds := make([]redoubt.Cmd, len(fs))
	for i, f := range fs {
		f.owner = wire.NewID()
		f.epoch = c.local.epoch(f.text)
		cmds[i] = wire.LeaseCmd(f.keys(), f.owner, c.opts.Lease, f.state.seen, waiter)
	}
	c.asks(fs)
	sent := c.clock.mono()
	for i, r := range c.send(ctx, cmds) {
		f := fs[i]
		status, now, left, raw, err := wire.ReadLease(r)
		if errors.Is(err, redoubt.ErrRefused) {
			c.settle(f, err)
			continue
		}
		if err != nil {
			// The lease may have been granted. But the command may also arrive after an invalidation,
			// so this owner never stores a value.
			f.owner, f.lost = "", f.owner
			granted = append(granted, f)
			continue
		}
		c.clock.learn(sent, now)
		e := parseEntry(raw)
		switch status {
		case wire.LeaseGranted:
			f.leasedAt = now
			granted = append(granted, f)
			c.remember(f, e)
		case wire.LeaseFresh:
			s := c.judge(ctx, f.place, e, f.epoch)
			if !s.good { // the entry can't be read, or has just become stale
				if s.seen == f.state.seen { // this program and the script disagree about the entry
					f.owner = ""
					granted = append(granted, f)
					continue
				}
				f.state = s
				g, h := c.attempt(ctx, fs[i:i+1], waiter)
				granted, held = append(granted, g...), append(held, h...)
				continue
			}
			f.answer = s.answer
			c.settle(f, nil)
		default:
			c.remember(f, e)
			held = append(held, waiting[K, V]{f, left})
		}
	}
	return granted, held
}

// remember notes the value that came with a lease, in case the source fails.
func (c *Cache[K, V]) remember(f *lookup[K, V], e entry) {
	if f.state.usable > 0 || !e.has() || c.opts.StaleIfError == 0 {
		return
	}
	if v, found, err := c.decode(e); err == nil {
		f.state.answer, f.state.usable = answer[V]{v, found}, e.fresh+micros(c.opts.StaleIfError)
	}
}
