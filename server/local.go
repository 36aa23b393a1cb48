package server

import (
	"bytes"
	"strconv"

	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

func (c *session) ping(args [][]byte, raw []byte) {
	if c.dedicated != nil || c.tx.active {
		// Its answer depends on the connection's state.
		c.commands[Passed]++
		c.forward(raw, nil)
		return
	}
	if !c.srv.inPool() && c.local.session == nil {
		// One server behind answers itself: CLIENT PAUSE holds the answer back, and it says that the
		// server works. An engine is not paused, and a pool has many servers.
		c.byControl(raw)
		return
	}
	c.commands[Local]++
	switch len(args) {
	case 1:
		c.reply([]byte("+PONG\r\n"))
	case 2:
		c.scratch = resp.AppendBulk(c.scratch[:0], args[1])
		c.reply(c.scratch)
	default:
		c.fail("ERR wrong number of arguments for 'ping' command")
	}
}

func (c *session) echo(args [][]byte, raw []byte) {
	if c.dedicated != nil || c.tx.active {
		c.commands[Passed]++
		c.forward(raw, nil)
		return
	}
	c.commands[Local]++
	c.scratch = resp.AppendBulk(c.scratch[:0], args[1])
	c.reply(c.scratch)
}

// byControl sends a command on a connection without writes. The back end answers there even while
// CLIENT PAUSE holds back writes elsewhere.
func (c *session) byControl(raw []byte) {
	c.commands[Passed]++
	t := c.tag()
	if c.muted {
		c.out.prepare(t, slot{mute: true})
	}
	u, err := c.srv.control()
	if err == nil {
		err = u.Send(&c.out, t, 1, raw)
	}
	if err != nil {
		c.unsent(t, err)
		return
	}
	c.control = u
}

func (c *session) quitNow([][]byte, []byte) {
	c.commands[Local]++
	c.ok()
	c.quit = true
}

// reset brings the connection back to how it began.
func (c *session) reset([][]byte, []byte) {
	c.commands[Local]++
	if !c.settle() {
		return
	}
	c.endTransaction()
	c.undedicate()
	if err := c.setProtocol(resp.RESP2); err != nil {
		c.fail("ERR redoubt: " + err.Error())
		return
	}
	c.replies, c.muted, c.elsewhere, c.readwrite = repliesOn, false, false, false
	c.enter()
	home := c.srv.opts.Backend.Database()
	c.shown(func(a *about) { a.name, a.shownDB = "", home })
	c.reply([]byte("+RESET\r\n"))
}

const (
	wrongPass  = "WRONGPASS invalid username-password pair or user is disabled."
	noPassword = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
)

func (c *session) auth(args [][]byte, _ []byte) {
	c.commands[Local]++
	if c.tx.active {
		c.refuseQueued("AUTH")
		return
	}
	switch {
	case len(args) > 3:
		c.fail("ERR syntax error")
	case c.logIn(args[1:]):
		c.ok()
	}
}

// logIn makes the client a user, by a password alone or by a name and a password. It reports false
// when it has answered with an error.
func (c *session) logIn(credentials [][]byte) bool {
	name, password := []byte(c.srv.opts.Username), credentials[0]
	byName := len(credentials) == 2
	if byName {
		name, password = credentials[0], credentials[1]
	}
	open := c.srv.users.Load().open()
	_, known := c.srv.users.Load().byName[string(name)]
	if c.behind == "" && (byName && known || !open) && c.login(name, password) {
		return true
	}
	switch {
	case open && !c.srv.inPool() && c.local.session == nil:
		return c.logInBehind(credentials)
	case open && !byName:
		c.fail(noPassword)
	case byName && !c.srv.inPool() && c.local.session == nil:
		// It says the same of every name, so nobody learns which users this server has.
		c.fail(wrongPass + " redoubt: users of the back end count only where Redoubt itself asks for no password")
	default:
		c.fail(wrongPass)
	}
	return false
}

// logInBehind makes the client a user of the back end, on a connection of its own, until RESET.
//
// Rejected: this where Redoubt has a password or users. A back end whose default user needs no
// password takes any, and would so let everybody in here.
func (c *session) logInBehind(credentials [][]byte) bool {
	had := c.dedicated != nil
	if !c.dedicate() {
		return false
	}
	ok := false
	c.forwardExpecting(resp.AppendCommand(nil, append([][]byte{[]byte("AUTH")}, credentials...)...), func(dst, raw []byte) []byte {
		if ok = bytes.Equal(raw, okRaw); ok {
			return dst
		}
		return append(dst, raw...)
	}, proxy.Expect{})
	switch {
	case !c.settle():
		return false
	case ok:
		c.shown(func(a *about) {
			if a.behind = "default"; len(credentials) == 2 {
				a.behind = string(credentials[0])
			}
		})
		return true
	}
	c.srv.stats.authFailures.Add(1)
	if !had {
		c.undedicate()
	}
	return false
}

const helloNoAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"

// hello answers HELLO [protover [AUTH user password] [SETNAME name]].
func (c *session) hello(args [][]byte, _ []byte) {
	c.commands[Local]++
	if c.tx.active {
		c.refuseQueued("HELLO")
		return
	}
	protocol := c.protocol
	if len(args) > 1 {
		n, ok := resp.ParseInt(args[1])
		if !ok {
			c.fail("ERR Protocol version is not an integer or out of range")
			return
		}
		if n != 2 && n != 3 {
			c.fail("NOPROTO unsupported protocol version")
			return
		}
		protocol = resp.Protocol(n) //nolint:gosec // 2 or 3
	}
	var user, password, name []byte
	named := false
	for i := 2; i < len(args); i++ {
		switch {
		case bytes.EqualFold(args[i], []byte("AUTH")) && i+2 < len(args):
			user, password = args[i+1], args[i+2]
			i += 2
		case bytes.EqualFold(args[i], []byte("SETNAME")) && i+1 < len(args):
			name, named = args[i+1], true
			if !validName(name) {
				c.fail(badName)
				return
			}
			i++
		default:
			c.fail("ERR Syntax error in HELLO option '" + string(args[i]) + "'")
			return
		}
	}
	if user != nil && !c.logIn([][]byte{user, password}) {
		return
	}
	if !c.authed {
		c.fail(helloNoAuth)
		return
	}
	// The reply is the first in the new protocol.
	if !c.settle() {
		return
	}
	who, err := c.srv.identify(c.ctx, protocol)
	if err != nil {
		c.unreachable(c.tag(), err)
		return
	}
	own := c.dedicated != nil
	if own && !c.helloDedicated(protocol, who) {
		return
	}
	if err := c.setProtocol(protocol); err != nil {
		c.fail("ERR redoubt: " + err.Error())
		return
	}
	if named {
		c.setName(string(name))
	}
	if !own {
		c.scratch = appendHello(c.scratch[:0], protocol, c.id, who)
		c.reply(c.scratch)
	}
}

// helloDedicated answers HELLO once the client's own connection speaks the
// protocol. It reports false when the back end refused, as it does in RESP2
// while there are subscriptions.
func (c *session) helloDedicated(p resp.Protocol, who []any) (ok bool) {
	raw := resp.AppendCommand(nil, "HELLO", strconv.Itoa(int(p)))
	c.forwardExpecting(raw, func(dst, raw []byte) []byte {
		if raw[0] == '-' {
			return append(dst, raw...)
		}
		ok = true
		return appendHello(dst, p, c.id, who)
	}, proxy.Expect{Protocol: p})
	return c.settle() && ok
}
