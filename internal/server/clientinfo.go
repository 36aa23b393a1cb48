package server

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// clientInfo is what a session says of its client in CLIENT LIST.
type clientInfo struct {
	name, libName, libVer string
	account               *account // nil: nobody, so far
	behind                string   // the user of the back end that the client is; empty: Redoubt's own
	database              int
	protocol              resp.Protocol
	inTransaction         bool
	queued, queuedBytes   int  // commands in the transaction
	noEvict               bool // CLIENT NO-EVICT
	readonly              bool // READONLY
	watches               bool // keys on the client's own connection, as far as is known here
}

// userName is what CLIENT LIST and ACL WHOAMI call the client's user. standard names a client
// that is no user.
func (i *clientInfo) userName(standard string) string {
	switch {
	case i.behind != "":
		return i.behind
	case i.account != nil:
		return i.account.user().Name()
	}
	return standard
}

// sharedInfo is a clientInfo that its session changes and any goroutine may read.
type sharedInfo struct {
	mu   sync.Mutex
	info clientInfo
}

func (s *sharedInfo) get() clientInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

func (s *sharedInfo) change(f func(i *clientInfo)) {
	s.mu.Lock()
	f(&s.info)
	s.mu.Unlock()
}

// userOf returns what the client's user is called.
func userOf(c *session) string {
	i := c.info.get()
	return i.userName(c.srv.opts.Username)
}

// note notes the command at hand for CLIENT LIST.
func (c *session) note(args [][]byte) {
	var is *acl.Command
	if k := c.known.lookup(args[0]); k != nil {
		is = k.rights.Of(args)
	} else if h := c.srv.lookup(args[0]); h != nil {
		is = h.rights
	}
	if c.command.Load() != is {
		c.command.Store(is)
	}
}

// An input is what CLIENT LIST shows of the input of the client that asks. Only a client's own
// goroutine knows its input, so other clients show none.
type input struct {
	of           *session
	unread, free int // bytes of the buffer
	args         int // bytes of the arguments of the command at hand
}

// inputOf returns the input of the client that asks, with args.
func inputOf(c *session, args [][]byte) input {
	in := input{of: c, unread: c.to - c.from, free: len(c.buf) - c.to + c.from}
	for _, a := range args {
		in.args += len(a)
	}
	return in
}

// addrOf is what Redis calls the client's address.
func addrOf(c *session) string { return clientAddr(c.conn.RemoteAddr(), c.conn.LocalAddr()) }

// laddrOf is what Redis calls the address that the client has connected to.
func laddrOf(c *session) string { return clientAddr(c.conn.LocalAddr(), c.conn.LocalAddr()) }

func clientAddr(of, local net.Addr) string {
	if local.Network() == "unix" { // where the other side has no name
		return local.String() + ":0"
	}
	return of.String()
}

// flagsOf are the letters of Redis for what the client does. dirty: keys that it watches have changed.
func flagsOf(c *session, a *clientInfo, h *holdings, dirty bool) string { //nolint:revive // the parameter is the state
	var b []byte
	add := func(on bool, letter byte) {
		if on {
			b = append(b, letter)
		}
	}
	add(h.monitors, 'O')
	add(h.subscribed(), 'P')
	add(a.inTransaction, 'x')
	add(waits(c), 'b')
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

// describe returns the session's line in CLIENT LIST, in the form of Redis. in is the input of the client
// that asks, and dirty holds the clients whose watched keys have changed.
func describe(c *session, in input, dirty map[*session]bool) string {
	now := time.Now()
	a := c.info.get()
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
		c.id, addrOf(c), laddrOf(c), a.name, int64(now.Sub(c.born).Seconds()), max(0, now.UnixMilli()-c.active.Load())/1000,
		flagsOf(c, &a, &h, dirty[c]), a.database, h.subscriptions[proxy.Channels], h.subscriptions[proxy.Patterns], h.subscriptions[proxy.Shards], multi,
		in.unread, in.free, in.args, a.queuedBytes, room, room, waiting, more, int64(sessionSize)+max(c.share.Used(), int64(in.unread+in.free+room+more)),
		events, command, a.userName(c.srv.opts.Username), h.tracked.redirect(), a.protocol, a.libName, a.libVer)
}

func isClientType(t string) bool {
	return slices.Contains([]string{"normal", "pubsub", "master", "replica", "slave"}, t)
}

// isType reports whether the client is of a type of CLIENT LIST. There are no masters and replicas.
func isType(c *session, t string) bool {
	return t == "normal" && !c.route.holdings().subscribed() || t == "pubsub" && c.route.holdings().subscribed()
}

// waits reports whether the client waits for others: CLIENT LIST shows b.
func waits(c *session) bool {
	if w := c.waiting.Load(); w != nil {
		return w.Waits()
	}
	return c.out.blocked()
}
