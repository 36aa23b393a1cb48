package server

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// note notes the command at hand for CLIENT LIST.
func (c *session) note(args [][]byte) {
	var is *acl.Command
	if k := c.lookupKeys(args[0]); k != nil {
		is = k.rights.Of(args)
	} else if h := c.srv.lookup(args[0]); h != nil {
		is = h.rights
	}
	if c.command.Load() != is {
		c.command.Store(is)
	}
}

// An input is what CLIENT LIST shows of the input of the client that asks. That of others, which
// only their goroutines know, is empty while they don't send anything.
type input struct {
	of           *session
	unread, free int // bytes of the buffer
	args         int // bytes of the arguments of the command at hand
}

func (c *session) input(args [][]byte) input {
	in := input{of: c, unread: c.to - c.from, free: len(c.buf) - c.to + c.from}
	for _, a := range args {
		in.args += len(a)
	}
	return in
}

// addr is what Redis calls the client's address.
func (c *session) addr() string { return clientAddr(c.conn.RemoteAddr(), c.conn.LocalAddr()) }

// laddr is what Redis calls the address that the client has connected to.
func (c *session) laddr() string { return clientAddr(c.conn.LocalAddr(), c.conn.LocalAddr()) }

func clientAddr(of, local net.Addr) string {
	if local.Network() == "unix" { // where the other side has no name
		return local.String() + ":0"
	}
	return of.String()
}

// inPubSub reports whether Redis would count the client among those in pub/sub.
func (c *session) inPubSub() bool {
	h := c.route.holdings()
	return h.subscribed()
}

// flags are the letters of Redis for what the client does. dirty: keys that it watches have changed.
func (c *session) flags(a *about, h *holdings, dirty bool) string { //nolint:revive // the parameter is the state
	var b []byte
	add := func(on bool, letter byte) {
		if on {
			b = append(b, letter)
		}
	}
	add(h.monitors, 'O')
	add(h.subscribed(), 'P')
	add(a.inTransaction, 'x')
	add(c.waits(), 'b')
	t := h.tracked
	add(t != nil, 't')
	add(t.broken(), 'R')
	add(t != nil && t.broadcast, 'B')
	add(dirty, 'd')
	add(c.draining.Load(), 'c')
	add(c.conn.LocalAddr().Network() == "unix", 'U')
	add(a.readonly, 'r')
	add(a.noEvict, 'e')
	return cmp.Or(string(b), "N")
}

// describe is the session's line in CLIENT LIST, in the form of Redis. in is the input of the client
// that asks, and dirty holds the clients whose watched keys have changed.
func (c *session) describe(in input, dirty map[*session]bool) string {
	now := time.Now()
	c.mu.Lock()
	a := c.about
	c.mu.Unlock()
	if in.of != c {
		in = input{}
	}
	h := c.route.holdings()
	o := &c.out
	o.mu.Lock()
	waiting, room, more, events := len(o.buf), cap(o.buf)+cap(o.spare), o.going+o.early+o.coming, "r"
	if o.full {
		events = "rw"
	}
	o.mu.Unlock()
	multi := -1
	if a.inTransaction {
		multi = a.queued
	}
	command := "NULL"
	if is := c.command.Load(); is != nil {
		command = is.Name()
	}
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d multi=%d"+
		" qbuf=%d qbuf-free=%d argv-mem=%d multi-mem=%d rbs=%d rbp=%d obl=%d oll=0 omem=%d tot-mem=%d"+
		" events=%s cmd=%s user=%s redir=%d resp=%d lib-name=%s lib-ver=%s",
		c.id, c.addr(), c.laddr(), a.name, int64(now.Sub(c.born).Seconds()), max(0, now.UnixMilli()-c.active.Load())/1000,
		c.flags(&a, &h, dirty[c]), a.shownDB, h.subscriptions[proxy.Channels], h.subscriptions[proxy.Patterns], h.subscriptions[proxy.Shards], multi,
		in.unread, in.free, in.args, a.queuedBytes, room, room, waiting, more, int64(sessionSize)+max(c.share.Used(), int64(in.unread+in.free+room+more)),
		events, command, c.shownUser(), h.tracked.redirect(), a.shownProtocol, a.libName, a.libVer)
}

func isClientType(t string) bool {
	return slices.Contains([]string{"normal", "pubsub", "master", "replica", "slave"}, t)
}

// isType reports whether the client is of a type of CLIENT LIST. There are no masters and replicas.
func (c *session) isType(t string) bool {
	switch t {
	case "normal":
		return !c.inPubSub()
	case "pubsub":
		return c.inPubSub()
	}
	return false
}

// gone reports whether the session is ending.
func (c *session) gone() bool { return c.ctx.Err() != nil }

// clientList answers CLIENT LIST [TYPE type | ID id …].
func (c *session) clientList(args [][]byte) {
	all := slices.DeleteFunc(c.srv.clients(), (*session).gone)
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	switch {
	case len(args) == 2:
	case len(args) == 4 && bytes.EqualFold(args[2], []byte("TYPE")):
		t := strings.ToLower(string(args[3]))
		if !isClientType(t) {
			c.fail("ERR Unknown client type '" + string(args[3]) + "'")
			return
		}
		all = slices.DeleteFunc(all, func(o *session) bool { return !o.isType(t) })
	case len(args) >= 4 && bytes.EqualFold(args[2], []byte("ID")):
		all = nil
		for _, a := range args[3:] {
			id, ok := resp.ParseInt(a)
			if !ok {
				c.fail("ERR Invalid client ID")
				return
			}
			if o := c.srv.client(id); o != nil && !o.gone() {
				all = append(all, o) // as often as it is named
			}
		}
	default:
		c.fail("ERR syntax error")
		return
	}
	in, dirty := c.input(args), c.srv.target.dirty(c.ctx, all)
	var b strings.Builder
	for _, o := range all {
		b.WriteString(o.describe(in, dirty))
		b.WriteByte('\n')
	}
	c.text(b.String())
}

// knows reports whether there is a user, or a client that is this user of the server behind.
func (s *Server) knows(user string) bool {
	return s.users.Load().byName[user] != nil ||
		slices.ContainsFunc(s.clients(), func(c *session) bool { return c.shownUser() == user })
}
