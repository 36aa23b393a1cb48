package server

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/rediscmd"
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

// fullName is the name of the command, or of the subcommand, that args name.
func (h *handler) fullName(args [][]byte) string {
	if h.redis != nil {
		if sub := h.redis.Of(args); sub != nil {
			return sub.Name
		}
	}
	return h.name
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
