package server

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/rediscmd"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A handler is how a command is treated that does not just pass through.
type handler struct {
	name string
	run  func(c *session, args [][]byte, raw []byte) // nil: an extension command
	// extension commands
	command *command.Command
	index   int // in the table
	family  uint8
	rights  *acl.Command
	// beforeAuth: may be sent before AUTH.
	beforeAuth bool
	redis      *rediscmd.Command // nil: it is none of Redis
	// checked: its number of arguments is checked here, because it is answered here.
	checked bool
	// quick: asks nobody.
	quick bool
}

const maxName = rediscmd.MaxName // no name in the map of handlers is longer

// lookup finds the handler for a name in any case, without allocating.
func (s *Server) lookup(name []byte) *handler {
	if len(name) > maxName || len(name) == 0 || s.initials[len(name)]&(1<<(name[0]&31)) == 0 {
		return nil
	}
	return s.handlers.Find(name)
}

func (s *Server) makeHandlers() rediscmd.Index[*handler] {
	m := make(rediscmd.Index[*handler])
	add := func(h handler, names ...string) {
		for _, n := range names {
			h := h
			h.name, h.redis = n, rediscmd.Find([]byte(n))
			m[n] = &h
		}
	}
	add(handler{run: hello, beforeAuth: true}, "hello")
	add(handler{run: auth, beforeAuth: true, checked: true}, "auth")
	add(handler{run: quit, beforeAuth: true}, "quit")
	add(handler{run: reset, beforeAuth: true, checked: true}, "reset")
	add(handler{run: clientCommand, checked: true}, "client")
	add(handler{run: ping, quick: true}, "ping")
	add(handler{run: echo, checked: true, quick: true}, "echo")
	add(handler{run: commandInfo}, "command")
	add(handler{run: crossProtocol(), beforeAuth: true}, "post", "host:")
	if s.answersACL() {
		add(handler{run: aclCommand, checked: true}, "acl")
	}
	s.target.addHandlers(add)

	for i, e := range s.table {
		name := string(bytes.ToLower([]byte(e.Name)))
		m[name] = &handler{name: name, command: e, index: i, family: uint8(familyIn(families, e.Group)), rights: acl.Lookup(name)} //nolint:gosec // few
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
		c.broke()
		c.quit = true
		now := time.Now().Unix()
		if before := last.Load(); now-before >= 60 && last.CompareAndSwap(before, now) {
			c.srv.opts.Logger.Warn("a client that speaks HTTP was closed: this may be an attack", "client", c.id, "addr", c.conn.RemoteAddr(), "command", string(args[0]))
		}
	}
}

// plain reports whether the command at hand may go as it is, if nothing else is known about it.
func (c *session) plain() bool {
	return c.authed && c.replies == repliesOn && !c.tx.active && !c.scanner.Inline()
}

// special runs every command but the plainest. h is nil for a command that the server does
// nothing about itself.
func (c *session) special(h *handler, args [][]byte, raw []byte) {
	c.mute()
	c.note(args)
	c.countLocal() // unless it is sent
	switch {
	case !c.authed && (h == nil || !h.beforeAuth):
		c.fail("NOAUTH Authentication required.")
	case c.scanner.Inline():
		c.guard(h, args, resp.AppendCommand(nil, args...))
	default:
		c.guard(h, args, raw)
	}
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

// guard has the carrier run a command that the client's user may run, and refuses others. A panic becomes an error reply.
func (c *session) guard(h *handler, args [][]byte, raw []byte) {
	defer func() {
		if v := recover(); v != nil {
			c.panicked(v)
			c.fail("ERR redoubt: internal error")
		}
	}()
	var k *keySpec
	var refusal string
	if c.rights.limited() {
		k = c.known.lookup(args[0])
		refusal = c.rights.refusal(k, h, args)
	}
	if refusal != "" && c.rights.denial.Loggable() {
		context := "toplevel"
		if c.tx.active {
			context = "multi"
		}
		noteDenial(c, c.rights.denial.Reason, context, c.rights.denial.Object, c.rights.user.Name(), inputOf(c, args))
	}
	switch {
	case refusal == "":
		c.carrier.run(h, args, raw)
	case k != nil && k.name == "exec": // as Redis has it, whether or not there was a MULTI
		c.carrier.abandon("EXECABORT Transaction discarded because of: " + refusal)
	default:
		c.reject(refusal)
	}
}

// handle runs the handler of a command.
func (c *session) handle(h *handler, args [][]byte, raw []byte) {
	if h.command != nil {
		c.extension(h, args, raw)
		return
	}
	if h.checked && !h.redis.Takes(len(args)) {
		c.reject("ERR wrong number of arguments for '" + h.name + "' command")
		return
	}
	if !h.quick {
		c.yieldLead() // rare, and may ask the back end
	}
	h.run(c, args, raw)
}

// extension runs an extension command.
func (c *session) extension(h *handler, args [][]byte, raw []byte) {
	c.belongs(h.family, func() {
		if c.carrier.extends(h, args, raw) {
			c.plan(h, args, h.command.Plan(c.srv.env, args))
		}
	})
}

// plan does what is planned for an extension command.
func (c *session) plan(h *handler, args [][]byte, p command.Plan) {
	switch {
	case p.Err != "" && c.tx.active:
		c.queueAnswer(resp.AppendError(nil, p.Err))
	case p.Err != "":
		c.fail(p.Err)
	case p.Wait != nil && c.tx.active:
		c.plan(h, args, p.Instead())
	case p.Wait != nil:
		c.as(Waited)
		c.await(h.family, p)
	default:
		c.carrier.script(h, args, p)
	}
}

// knownKeys remembers the command that was looked up last: the next is mostly the same.
type knownKeys struct {
	name [maxName]byte
	n    int
	spec *keySpec
}

// lookup is [lookupKeys], faster for a name that comes again.
func (o *knownKeys) lookup(name []byte) *keySpec {
	if o.spec == nil || string(o.name[:o.n]) != string(name) {
		k := lookupKeys(name)
		if k != nil {
			o.n, o.spec = copy(o.name[:], name), k
		}
		return k
	}
	return o.spec
}
