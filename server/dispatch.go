package server

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/command"
	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// A handler is how a command is treated that does not just pass through.
type handler struct {
	name string
	run  func(c *session, args [][]byte, raw []byte)
	// extension commands
	command *command.Command
	index   int // in the table
	rights  *acl.Command
	// beforeAuth: may be sent before AUTH.
	beforeAuth bool
	// arity as in Redis, for those answered here; 0: not checked.
	arity int
	// quick: asks nobody.
	quick bool
}

const maxName = 32 // longer than any name in the map of handlers

// lookup finds the handler for a name in any case, without allocating.
func (s *Server) lookup(name []byte) *handler {
	if len(name) > maxName || len(name) == 0 || s.initials[len(name)]&(1<<(name[0]&31)) == 0 {
		return nil
	}
	var low [maxName]byte
	for i, b := range name {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		low[i] = b
	}
	return s.handlers[string(low[:len(name)])]
}

func (s *Server) makeHandlers() map[string]*handler {
	m := make(map[string]*handler)
	add := func(h handler, names ...string) {
		for _, n := range names {
			h := h
			h.name = n
			m[n] = &h
		}
	}
	add(handler{run: (*session).hello, beforeAuth: true}, "hello")
	add(handler{run: (*session).auth, beforeAuth: true, arity: -2}, "auth")
	add(handler{run: (*session).quitNow, beforeAuth: true}, "quit")
	add(handler{run: (*session).reset, beforeAuth: true, arity: 1}, "reset")
	add(handler{run: (*session).client, arity: -2}, "client")
	add(handler{run: (*session).ping, quick: true}, "ping")
	add(handler{run: (*session).echo, arity: 2, quick: true}, "echo")
	add(handler{run: (*session).commandInfo}, "command")
	add(handler{run: (*session).selectDB, arity: 2}, "select")

	add(handler{run: (*session).multi, arity: 1}, "multi")
	add(handler{run: (*session).exec, arity: 1}, "exec")
	add(handler{run: (*session).discard, arity: 1}, "discard")
	add(handler{run: (*session).watch}, "watch")

	add(handler{run: (*session).occupy}, "debug", "asking")
	add(handler{run: (*session).readOnly}, "readonly", "readwrite")
	add(handler{run: (*session).blockingCommand},
		"blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin", "bzpopmax", "bzmpop")
	add(handler{run: (*session).stream}, "xread", "xreadgroup")
	add(handler{run: (*session).wait}, "wait", "waitaof")
	add(handler{run: (*session).scriptOrFunction}, "script", "function")
	add(handler{run: subscription(proxy.Channels)}, "subscribe", "unsubscribe")
	add(handler{run: subscription(proxy.Patterns)}, "psubscribe", "punsubscribe")
	add(handler{run: subscription(proxy.Shards)}, "ssubscribe", "sunsubscribe")
	add(handler{run: (*session).monitor, arity: 1}, "monitor")
	add(handler{run: (*session).replication}, "sync", "psync", "replconf")

	add(handler{run: crossProtocol(), beforeAuth: true}, "post", "host:")

	for i, e := range s.table {
		name := string(bytes.ToLower([]byte(e.Name)))
		m[name] = &handler{name: name, command: e, index: i, rights: acl.Lookup(name), run: (*session).extension}
		if len(name) > maxName {
			panic("server: the name of a command is longer than lookup allows: " + name)
		}
	}
	return m
}

// initials says for each length of a name which letters names of that length in
// m begin with, as bits, so that most commands need not be looked up.
func initials(m map[string]*handler) (bits [maxName + 1]uint32) {
	for name := range m {
		bits[len(name)] |= 1 << (name[0] & 31)
	}
	return bits
}

// crossProtocol is for words of HTTP: a page in a browser may have been made to
// send them here, with commands in what follows. Like Redis, which would close
// the connection that all share, it closes the client without an answer.
func crossProtocol() func(c *session, args [][]byte, raw []byte) {
	var last atomic.Int64 // when it was logged
	return func(c *session, args [][]byte, _ []byte) {
		c.commands[Local]++
		c.broke()
		c.quit = true
		now := time.Now().Unix()
		if before := last.Load(); now-before >= 60 && last.CompareAndSwap(before, now) {
			c.srv.opts.Logger.Warn("a client that speaks HTTP was closed: this may be an attack", "client", c.id, "addr", c.conn.RemoteAddr(), "command", string(args[0]))
		}
	}
}

// dispatch sends one command on its way. raw is args as they are in c.buf.
func (c *session) dispatch(args [][]byte, raw []byte) {
	if c.srv.inPool() {
		c.dispatchPooled(args, raw)
		return
	}
	h := c.srv.lookup(args[0])
	if h == nil && c.authed && c.replies == repliesOn && !c.tx.active && !c.scanner.Inline() {
		c.commands[Passed]++
		if c.here() {
			c.runHere(args)
		} else {
			c.pass(raw)
		}
		return
	}
	c.sendSpan()
	c.mute()
	c.special(h, args, raw)
	c.muted = false
}

// mute says whether the command at hand gets a reply.
func (c *session) mute() {
	switch c.replies {
	case repliesOn:
	case repliesOff:
		c.muted = true
	case skipNext:
		c.muted, c.replies = true, repliesOn
	}
}

// special is dispatch for everything but the plainest case.
func (c *session) special(h *handler, args [][]byte, raw []byte) {
	c.note(args)
	if c.scanner.Inline() {
		raw = resp.AppendCommand(nil, args...)
	}
	if !c.authed && (h == nil || !h.beforeAuth) {
		c.fail("NOAUTH Authentication required.")
		return
	}
	if h == nil {
		c.commands[Passed]++
		c.forward(raw, nil)
		return
	}
	if n := h.arity; n != 0 && (n > 0 && len(args) != n || n < 0 && len(args) < -n) {
		if c.tx.active {
			c.tx.broken = true
		}
		c.fail("ERR wrong number of arguments for '" + h.name + "' command")
		return
	}
	if h.command == nil && !h.quick {
		c.stepAside() // rare, and may ask the back end
	}
	defer func() {
		if v := recover(); v != nil {
			c.panicked(v)
			c.fail("ERR redoubt: internal error")
		}
	}()
	h.run(c, args, raw)
}

// pass adds a command to the span of those that pass through untouched.
func (c *session) pass(raw []byte) {
	apart := c.dedicated == nil && c.goesApart(raw)
	if apart != c.span.apart {
		c.sendSpan()
		c.span.apart = apart
	}
	if c.span.n == 0 {
		if c.scripted != 0 && !c.settleScript() {
			return
		}
		c.span.from, c.span.tag = c.from, c.next
	}
	c.span.to = c.from + len(raw)
	c.span.n++
	c.next++
}

// tag takes the next place in the order of replies.
func (c *session) tag() uint64 {
	t := c.next
	c.next++
	return t
}

// reply answers a command here.
func (c *session) reply(raw []byte) {
	if c.capture != nil {
		*c.capture = append(*c.capture, raw...)
		return
	}
	t := c.tag()
	if c.muted {
		c.out.prepare(t, slot{mute: true})
	}
	c.out.Reply(t, raw)
}

// fail answers a command with an error.
func (c *session) fail(text string) {
	c.scratch = resp.AppendError(c.scratch[:0], text)
	c.reply(c.scratch)
}

func (c *session) ok() { c.reply(okRaw) }

// forward sends one command to the back end, on whichever connection the
// client has. Its reply is changed by change unless that is nil.
func (c *session) forward(raw []byte, change translate) {
	if c.tx.active {
		c.queue(raw, change)
		return
	}
	if c.dedicated != nil {
		c.forwardExpecting(raw, change, proxy.Expect{})
		return
	}
	t := c.tag()
	if change != nil || c.muted {
		c.out.prepare(t, slot{change: change, mute: c.muted})
	}
	if c.here() {
		c.out.Reply(t, c.runLine(raw))
		return
	}
	if err := c.send(t, c.goesApart(raw), &c.out, t, 1, raw); err != nil {
		c.unsent(t, err)
	}
}

// forwardExpecting sends one command on the dedicated connection.
func (c *session) forwardExpecting(raw []byte, change translate, e proxy.Expect) {
	if !c.settleScript() {
		return
	}
	t := c.tag()
	if change != nil || c.muted {
		c.out.prepare(t, slot{change: change, mute: c.muted})
	}
	if err := c.dedicated.SendExpecting(t, e, raw); err != nil {
		c.unsent(t, err)
	}
}

// unsent answers a command that could not be sent, untranslated.
func (c *session) unsent(tag uint64, cause error) {
	c.out.prepare(tag, slot{mute: c.muted})
	c.unreachable(tag, cause)
}

// settleScript waits for the reply to a script on the dedicated connection.
// Were it missing and sent again, it would come behind what is sent now, and
// might end up inside a transaction.
func (c *session) settleScript() bool {
	if c.scripted == 0 || c.out.head.Load() >= c.scripted {
		c.scripted = 0
		return true
	}
	c.stepAside()
	c.flush()
	last := c.scripted
	c.scripted = 0
	return c.out.await(noDeadline, func() bool { return c.out.head.Load() >= last })
}

// extension runs a command of the table.
func (c *session) extension(args [][]byte, raw []byte) {
	h := c.srv.lookup(args[0])
	if h.command.Module && c.srv.module(c.ctx) {
		c.commands[Passed]++
		c.forward(raw, nil)
		return
	}
	c.srv.stats.extension[h.index].Add(1)
	if fault := h.command.CheckArity(len(args)); fault != "" {
		c.commands[Local]++
		if c.tx.active {
			c.tx.broken = true
		}
		c.fail(fault)
		return
	}
	c.run(h.command.Plan(c.srv.env, args))
}

func (c *session) run(p command.Plan) {
	switch {
	case p.Err != "":
		c.commands[Local]++
		if c.tx.active {
			c.queueAnswer(resp.AppendError(nil, p.Err))
			return
		}
		c.fail(p.Err)
	case p.Wait != nil && c.tx.active:
		c.run(p.Instead())
	case p.Wait != nil:
		c.commands[Waited]++
		c.await(p)
	case c.tx.active:
		c.commands[Rewritten]++
		protocol, script := c.protocol, p.Translate
		c.queue(proxy.AppendEval(nil, p.Cmd), func(dst, raw []byte) []byte {
			return script(dst, protocol, scriptReply(raw))
		})
	default:
		c.commands[Rewritten]++
		c.rewrite(p)
	}
}

// rewrite sends a script in the place of a command.
func (c *session) rewrite(p command.Plan) {
	if !c.settleScript() {
		return
	}
	t := c.tag()
	c.out.prepare(t, slot{script: p.Translate, protocol: c.protocol, undo: p.Undo, mute: c.muted})
	var err error
	switch {
	case c.dedicated != nil:
		c.scripted = t + 1
		err = c.dedicated.SendScript(t, p.Cmd)
	case c.here():
		c.out.Reply(t, c.runScript(p.Cmd))
	default:
		err = c.sendScript(t, p.Cmd)
	}
	if err != nil {
		c.unsent(t, err)
	}
}
