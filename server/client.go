package server

import (
	"bytes"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/resp"
)

const badName = "ERR Client names cannot contain spaces, newlines or special characters."

// validName is Redis' rule: printable ASCII without blanks.
func validName(name []byte) bool {
	return !slices.ContainsFunc(name, func(b byte) bool { return b < '!' || b > '~' })
}

// shown changes what CLIENT LIST shows.
func (c *session) shown(f func(a *about)) {
	c.mu.Lock()
	f(&c.about)
	c.mu.Unlock()
}

func (c *session) shownName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

func (c *session) shownUser() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.behind != "":
		return c.behind
	case c.user != nil:
		return c.user.Name()
	}
	return c.srv.opts.Username
}

func (c *session) setName(name string) { c.shown(func(a *about) { a.name = name }) }

// clientCommand answers CLIENT.
func clientCommand(c *session, args [][]byte, raw []byte) {
	sub := strings.ToLower(string(args[1]))
	// In a transaction REPLY ON changes nothing. Redis runs OFF and SKIP there, and
	// then EXEC's array has fewer elements than it says, for which the client waits.
	on := sub == "reply" && len(args) == 3 && bytes.EqualFold(args[2], []byte("ON")) && c.replies == repliesOn
	if c.tx.active && !on && !slices.Contains([]string{"id", "getname", "setname", "setinfo", "info", "list", "help", "getredir", "trackinginfo"}, sub) {
		c.refuseQueued("CLIENT " + strings.ToUpper(sub))
		return
	}
	if c.tx.active {
		answer := []byte{}
		c.capture = &answer
		defer func() {
			if c.capture != nil {
				c.capture = nil
				c.queueAnswer(answer)
			}
		}()
	}
	arity := map[string]int{
		"id": 2, "getname": 2, "setname": 3, "setinfo": 4, "info": 2, "kill": -3, "reply": 3, "no-evict": 3,
		"no-touch": 3, "tracking": -3, "caching": 3, "getredir": 2, "trackinginfo": 2, "unblock": -3, "help": 2,
	}
	if n := arity[sub]; n > 0 && len(args) != n || n < 0 && len(args) < -n {
		if c.tx.active {
			c.capture = nil // refused, not queued
		}
		c.reject("ERR wrong number of arguments for 'client|" + sub + "' command")
		return
	}
	switch sub {
	case "id":
		c.scratch = resp.AppendInt(c.scratch[:0], int64(c.id)) //nolint:gosec // counts clients
		c.reply(c.scratch)
	case "getname":
		if name := c.shownName(); name != "" {
			c.scratch = resp.AppendBulk(c.scratch[:0], name)
		} else {
			c.scratch = resp.AppendNull(c.scratch[:0], c.protocol)
		}
		c.reply(c.scratch)
	case "setname":
		if !validName(args[2]) {
			c.fail(badName)
			return
		}
		c.setName(string(args[2]))
		c.ok()
	case "setinfo":
		c.setInfo(string(args[2]), args[3])
	case "info":
		c.text(c.describe(c.input(args), c.srv.target.dirty(c.ctx, []*session{c})) + "\n")
	case "list":
		c.clientList(args)
	case "kill":
		c.clientKill(args)
	case "reply":
		c.clientReply(args)
	case "no-evict":
		// Clients are not evicted for the memory that they use: it shows in CLIENT LIST alone.
		c.onOff(args[2], func(a *about, on bool) { a.noEvict = on })
	case "unblock":
		c.clientUnblock(args)
	default:
		c.capture = nil // what is carried gets queued itself
		if !c.carrier.client(sub, args, raw) {
			c.fail("ERR unknown subcommand '" + string(args[1]) + "'. Try CLIENT HELP.")
		}
	}
}

// text answers with a text, which RESP3 gives its format.
func (c *session) text(s string) {
	c.scratch = resp.AppendVerbatim(c.scratch[:0], c.protocol, "txt", s)
	c.reply(c.scratch)
}

func (c *session) onOff(arg []byte, set func(a *about, on bool)) {
	on := bytes.EqualFold(arg, []byte("ON"))
	if !on && !bytes.EqualFold(arg, []byte("OFF")) {
		c.fail("ERR syntax error")
		return
	}
	c.shown(func(a *about) { set(a, on) })
	c.ok()
}

func (c *session) setInfo(attribute string, value []byte) {
	if !validName(value) {
		c.fail("ERR " + strings.ToLower(attribute) + " cannot contain spaces, newlines or special characters.")
		return
	}
	switch strings.ToLower(attribute) {
	case "lib-name":
		c.shown(func(a *about) { a.libName = string(value) })
	case "lib-ver":
		c.shown(func(a *about) { a.libVer = string(value) })
	default:
		c.fail("ERR Unrecognized option '" + attribute + "'")
		return
	}
	c.ok()
}

// clientReply answers CLIENT REPLY ON | OFF | SKIP. The back end is not told:
// it goes on replying, and the replies are dropped here.
func (c *session) clientReply(args [][]byte) {
	switch strings.ToLower(string(args[2])) {
	case "on":
		c.replies, c.muted = repliesOn, false
		c.ok()
	case "off":
		c.replies = repliesOff
	case "skip":
		if c.replies != repliesOff {
			c.replies = skipNext
		}
	default:
		c.fail("ERR syntax error")
	}
}
