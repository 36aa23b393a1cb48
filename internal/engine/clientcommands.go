package engine

import (
	"slices"
	"strings"
	"time"
)

func cmdClientID(c *call) { c.int(c.s.id) }

func cmdClientGetname(c *call) {
	c.s.client.mu.Lock()
	name := c.s.client.name
	c.s.client.mu.Unlock()
	if name == "" {
		c.null()
		return
	}
	c.str(name)
}

func cmdClientSetname(c *call) {
	if !validName(c.args[2]) {
		c.err(badName)
		return
	}
	if !c.nameFits(c.args[2]) {
		return
	}
	c.s.setName(c.args[2])
	c.ok()
}

func cmdClientSetinfo(c *call) {
	a := &c.s.client
	field := &a.libName
	switch name := c.args[2]; {
	case is(name, "lib-name"):
	case is(name, "lib-ver"):
		field = &a.libVer
	default:
		c.err("ERR Unrecognized option '" + clip(name, 128) + "'")
		return
	}
	if !validName(c.args[3]) {
		c.err("ERR " + strings.ToLower(string(c.args[2])) + " cannot contain spaces, newlines or special characters.")
		return
	}
	if !c.nameFits(c.args[3]) {
		return
	}
	a.mu.Lock()
	*field = string(c.args[3])
	a.mu.Unlock()
	c.ok()
}

func cmdClientInfo(c *call) {
	c.s.client.note(c.s)
	var b strings.Builder
	c.s.describe(&b)
	b.WriteByte('\n')
	c.verbatim(b.String())
}

func cmdClientList(c *call) {
	var ids []int64
	typ := ""
	switch {
	case len(c.args) == 2:
	case len(c.args) == 4 && is(c.args[2], "type"):
		if typ = strings.ToLower(string(c.args[3])); !validType(typ) {
			c.err("ERR Unknown client type '" + clip(c.args[3], 128) + "'")
			return
		}
	case len(c.args) >= 4 && is(c.args[2], "id"):
		for _, a := range c.args[3:] {
			id, ok := parseInt(a)
			if !ok {
				c.err("ERR Invalid client ID")
				return
			}
			ids = append(ids, id)
		}
	default:
		c.syntax()
		return
	}
	slices.Sort(ids)
	c.s.client.note(c.s)
	var b strings.Builder
	for _, s := range c.e.clients.list() {
		if _, named := slices.BinarySearch(ids, s.id); ids != nil && !named || typ != "" && !s.isType(typ) {
			continue
		}
		s.describe(&b)
		b.WriteByte('\n')
	}
	c.verbatim(b.String())
}

func validType(t string) bool {
	return slices.Contains([]string{"normal", "pubsub", "master", "replica", "slave"}, t)
}

func (s *Session) isType(t string) bool {
	switch t {
	case "normal":
		return !s.isPubSub()
	case "pubsub":
		return s.isPubSub()
	}
	return false
}

// A killFilter selects clients for CLIENT KILL.
type killFilter struct {
	id               int64
	addr, laddr, typ string
	skipMe           bool
	maxAge           time.Duration
}

func (c *call) parseKill() (f killFilter, ok bool) {
	args := c.args[2:]
	if len(args) == 1 {
		return killFilter{addr: string(args[0])}, true
	}
	f.skipMe = true
	if len(args)%2 != 0 {
		c.syntax()
		return f, false
	}
	for i := 0; i < len(args); i += 2 {
		value := string(args[i+1])
		switch name := args[i]; {
		case is(name, "id"):
			id, ok := parseInt(args[i+1])
			if !ok || id < 1 {
				c.err("ERR client-id should be greater than 0")
				return f, false
			}
			f.id = id
		case is(name, "addr"):
			f.addr = value
		case is(name, "laddr"):
			f.laddr = value
		case is(name, "user"):
			if value != "default" {
				c.err("ERR No such user '" + clip(args[i+1], 128) + "'")
				return f, false
			}
		case is(name, "type"):
			if f.typ = strings.ToLower(value); !validType(f.typ) {
				c.err("ERR Unknown client type '" + clip(args[i+1], 128) + "'")
				return f, false
			}
		case is(name, "maxage"):
			n, ok := parseInt(args[i+1])
			if !ok || n < 1 || n > 1<<31 {
				c.err("ERR maxage is not an integer or out of range")
				return f, false
			}
			f.maxAge = time.Duration(n) * time.Second
		case is(name, "skipme") && is(args[i+1], "yes"):
			f.skipMe = true
		case is(name, "skipme") && is(args[i+1], "no"):
			f.skipMe = false
		default:
			c.syntax()
			return f, false
		}
	}
	return f, true
}

func (f *killFilter) matches(s *Session) bool {
	if f.id != 0 && s.id != f.id || f.typ != "" && !s.isType(f.typ) {
		return false
	}
	a := &s.client
	a.mu.Lock()
	defer a.mu.Unlock()
	return (f.addr == "" || a.addr == f.addr) && (f.laddr == "" || a.laddr == f.laddr) &&
		(f.maxAge == 0 || s.e.clock.Now().Sub(a.born) >= f.maxAge)
}

func cmdClientKill(c *call) {
	f, ok := c.parseKill()
	if !ok {
		return
	}
	killed := int64(0)
	for _, s := range c.e.clients.list() {
		if s == c.s && f.skipMe || !f.matches(s) {
			continue
		}
		switch kill := s.client.closer(); {
		case s == c.s:
			s.quitting = true // once it has its reply
		case kill == nil || !kill():
			continue
		}
		killed++
	}
	switch {
	case len(c.args) > 3:
		c.int(killed)
	case killed == 0:
		c.err("ERR No such client")
	default:
		c.ok()
	}
}

func cmdClientUnblock(c *call) {
	id, ok := c.argInt(c.args[2])
	if !ok {
		return
	}
	how := unblockTimeout
	if len(c.args) == 4 {
		switch {
		case is(c.args[3], "timeout"):
		case is(c.args[3], "error"):
			how = unblockError
		default:
			c.err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
			return
		}
	} else if len(c.args) > 4 {
		c.err("ERR wrong number of arguments for 'client|unblock' command")
		return
	}
	n := int64(0)
	if s := c.e.clients.get(id); s != nil {
		if w := s.wait.Load(); w != nil && w.unblock(how) {
			n = 1
		}
	}
	c.int(n)
}

// replyMode says whether a session answers: CLIENT REPLY.
type replyMode uint8

const (
	repliesOn replyMode = iota
	repliesOff
	skipNext // SKIP was sent
	skipThis
)

func cmdClientReply(c *call) {
	switch a := c.args[2]; {
	case is(a, "on"):
		c.s.replies = repliesOn
		c.ok()
	case is(a, "off"):
		c.s.replies = repliesOff
	case is(a, "skip"):
		if c.s.replies != repliesOff {
			c.s.replies = skipNext
		}
	default:
		c.syntax()
	}
}

// cmdClientNoEvict accepts ON and OFF without effect: the engine evicts no clients, and counts a
// client's reads as accesses in any case.
func cmdClientNoEvict(c *call) {
	if !is(c.args[2], "on") && !is(c.args[2], "off") {
		c.syntax()
		return
	}
	c.ok()
}

func cmdClientHelp(c *call) { c.help() }
