package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// about is what CLIENT LIST shows of a session and CLIENT KILL needs.
type about struct {
	mu                    sync.Mutex
	addr, laddr           string
	name, libName, libVer string
	born                  time.Time
	kill                  func() bool // closes the connection, false when it is closing; nil: nothing to close

	// As of the last time that the session's connection noted it.
	db, queued int
	command    string
	seen       time.Time
}

func (a *about) set(addr, laddr string, kill func() bool) {
	a.mu.Lock()
	a.addr, a.laddr, a.kill = addr, laddr, kill
	a.mu.Unlock()
}

// note is called by the session's goroutine.
func (a *about) note(s *Session) {
	now := s.e.clock.Now()
	a.mu.Lock()
	a.seen, a.db, a.queued = now, s.db, -1
	if s.inMulti {
		a.queued = len(s.queue)
	}
	if s.c.cmd != nil {
		a.command = s.c.cmd.Name
	}
	a.mu.Unlock()
}

func (a *about) closer() func() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kill
}

// list returns the clients by their numbers.
func (cl *clients) list() []*Session {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	all := make([]*Session, 0, len(cl.byID))
	for _, s := range cl.byID {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Session) int { return cmp.Compare(a.id, b.id) })
	return all
}

func (cl *clients) get(id int64) *Session {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.byID[id]
}

// describe writes the session's line in CLIENT LIST, in the form of Redis.
func (s *Session) describe(b *strings.Builder) {
	now := s.e.clock.Now()
	s.e.pubsub.mu.RLock()
	sub, psub, ssub := s.subs.channels.len(), s.subs.patterns.len(), s.subs.shard.len()
	s.e.pubsub.mu.RUnlock()
	redirect := int64(-1)
	flags := ""
	add := func(on bool, letters string) {
		if on {
			flags += letters
		}
	}
	add(s.monitoring.Load(), "O")
	add(sub+psub+ssub > 0, "P")
	if t := s.tracker.Load(); t != nil {
		redirect = t.redirect
		add(true, "t")
		add(t.broken.Load(), "R")
		add(t.broadcast, "B")
	}
	add(s.wait.Load() != nil, "b")
	a := &s.about
	a.mu.Lock()
	defer a.mu.Unlock()
	add(a.queued >= 0, "x")
	add(s.stale.Load(), "d")
	if flags == "" {
		flags = "N"
	}
	command := a.command
	if command == "" {
		command = "NULL"
	}
	seconds := func(since time.Time) int64 { return max(0, int64(now.Sub(since).Seconds())) }
	fmt.Fprintf(b, "id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d multi=%d cmd=%s user=default redir=%d resp=%d lib-name=%s lib-ver=%s",
		s.id, a.addr, a.laddr, a.name, seconds(a.born), seconds(a.seen), flags, a.db, sub, psub, ssub,
		a.queued, command, redirect, s.pushProtocol(), a.libName, a.libVer)
}

// isPubSub reports whether messages may come to the session.
func (s *Session) isPubSub() bool {
	s.e.pubsub.mu.RLock()
	defer s.e.pubsub.mu.RUnlock()
	return s.subs.count > 0
}

// validName is Redis' rule: printable ASCII without blanks.
func validName(name []byte) bool {
	return !slices.ContainsFunc(name, func(b byte) bool { return b < '!' || b > '~' })
}

const badName = "ERR Client names cannot contain spaces, newlines or special characters."

// hello answers HELLO [protover [AUTH user password] [SETNAME name]].
func cmdHello(c *call) {
	s := c.s
	protocol := s.proto
	if len(c.args) > 1 {
		n, ok := parseInt(c.args[1])
		if !ok {
			c.err("ERR Protocol version is not an integer or out of range")
			return
		}
		if n != 2 && n != 3 {
			c.err("NOPROTO unsupported protocol version")
			return
		}
		protocol = resp.Protocol(n)
	}
	var name []byte
	for i := 2; i < len(c.args); i++ {
		switch a := c.args[i]; {
		case is(a, "auth") && i+2 < len(c.args):
			if string(c.args[i+1]) != "default" {
				c.err(wrongPass)
				return
			}
			i += 2
		case is(a, "setname") && i+1 < len(c.args):
			if name = c.args[i+1]; !validName(name) {
				c.err(badName)
				return
			}
			i++
		default:
			c.err("ERR Syntax error in HELLO option '" + clip(a, 128) + "'")
			return
		}
	}
	if name != nil {
		s.setName(name)
	}
	s.SetProtocol(protocol)
	c.proto = protocol
	c.mapHead(7)
	c.str("server")
	c.str("redis")
	c.str("version")
	c.str(redisVersion)
	c.str("proto")
	c.int(int64(protocol))
	c.str("id")
	c.int(s.id)
	c.str("mode")
	c.str("standalone")
	c.str("role")
	c.str("master")
	c.str("modules")
	c.array(0)
}

const (
	wrongPass  = "WRONGPASS invalid username-password pair or user is disabled."
	noPassword = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
)

// cmdAuth: there is one user, default, who may have any password.
func cmdAuth(c *call) {
	switch {
	case len(c.args) > 3:
		c.syntax()
	case len(c.args) == 2:
		c.err(noPassword)
	case string(c.args[1]) != "default":
		c.err(wrongPass)
	default:
		c.ok()
	}
}

func cmdQuit(c *call) {
	c.s.quitting = true
	c.ok()
}

func cmdReset(c *call) {
	c.s.Reset()
	c.proto = resp.RESP2
	c.status("RESET")
}

// cmdWait: there are no replicas, so none has what was written.
func cmdWait(c *call) {
	replicas, ok := c.argInt(c.args[1])
	if !ok {
		return
	}
	timeout, ok := parseInt(c.args[2])
	switch {
	case !ok:
		c.err("ERR timeout is not an integer or out of range")
		return
	case timeout < 0:
		c.err("ERR timeout is negative")
		return
	}
	if replicas <= 0 {
		c.int(0)
		return
	}
	c.block(nil, longest(timeout), resp.AppendInt(nil, 0))
}

func (s *Session) setName(name []byte) {
	s.about.mu.Lock()
	s.about.name = string(name)
	s.about.mu.Unlock()
}
