package server

import (
	"bytes"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// The commands below concern the connection of the client. A handler answers them here.

func ping(c *session, args [][]byte, raw []byte) {
	if c.carrier.carries(c.srv.lookup(args[0]), raw) {
		return
	}
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

func echo(c *session, args [][]byte, raw []byte) {
	if !c.carrier.carries(c.srv.lookup(args[0]), raw) {
		c.scratch = resp.AppendBulk(c.scratch[:0], args[1])
		c.reply(c.scratch)
	}
}

func quit(c *session, _ [][]byte, _ []byte) {
	c.ok()
	c.quit = true
}

// reset brings the connection back to how it began.
func reset(c *session, _ [][]byte, _ []byte) {
	if !c.settle() {
		return
	}
	c.endTransaction()
	c.carrier.reset()
	if err := c.setProtocol(resp.RESP2); err != nil {
		c.fail("ERR redoubt: " + err.Error())
		return
	}
	c.replies, c.muted = repliesOn, false
	c.enter()
	home := c.srv.target.database()
	c.info.change(func(a *clientInfo) { a.name, a.database = "", home })
	c.reply([]byte("+RESET\r\n"))
}

// setProtocol switches a client that has no commands in flight, and whose own
// connection, if it has one, speaks the protocol already.
func (c *session) setProtocol(p resp.Protocol) error {
	if p == c.protocol {
		return nil
	}
	if err := c.carrier.setProtocol(p); err != nil {
		return err
	}
	c.protocol = p
	c.info.change(func(a *clientInfo) { a.protocol = p })
	return nil
}

const (
	wrongPass  = "WRONGPASS invalid username-password pair or user is disabled."
	noPassword = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
)

func auth(c *session, args [][]byte, _ []byte) {
	switch {
	case c.tx.active && c.counter != nil: // the engine is here
		queueLogin(c, args[1:])
	case c.tx.active:
		c.refuseQueued("AUTH")
	case len(args) > 3:
		c.fail("ERR syntax error")
	case logIn(c, args[0], args[1:]):
		c.ok()
	}
}

// logIn makes the client a user, by a password alone or by a name and a password, as a command says. It reports
// false when it has answered with an error.
func logIn(c *session, command []byte, credentials [][]byte) bool {
	users := c.srv.users.Load()
	a, fault := c.srv.admit(credentials)
	if a != nil && c.info.get().behind == "" && c.login(a) {
		return true
	}
	switch {
	case users.open() && users.standard.user().MayAll() && c.srv.target.usersBehind() && len(c.srv.opts.Users) == 0:
		return directOf(c).logIn(credentials)
	case fault == noPassword:
		c.fail(noPassword)
		return false
	}
	c.srv.stats.authFailures.Add(1)
	name, _ := c.srv.named(credentials)
	noteDenial(c, acl.ByLogin, "toplevel", string(command), string(name), input{of: c})
	switch {
	case len(credentials) == 2 && c.srv.target.usersBehind():
		// It says the same of every name, so nobody learns which users this server has.
		c.fail(wrongPass + " redoubt: users of the back end count only where Redoubt itself asks for no password")
	default:
		c.fail(wrongPass)
	}
	return false
}

// named returns the user and the password of credentials: a password alone is the standard user's.
func (s *Server) named(credentials [][]byte) (name, password []byte) {
	if len(credentials) == 1 {
		return []byte(s.standardUser()), credentials[0]
	}
	return credentials[0], credentials[1]
}

// admit returns the account that credentials are for, or an error. It takes as long for a wrong name as for a wrong
// password, unless clients need no password. Any goroutine may call it.
func (s *Server) admit(credentials [][]byte) (a *account, fault string) {
	users := s.users.Load()
	name, password := s.named(credentials)
	a = users.byName[string(name)]
	if users.open() {
		switch {
		case len(credentials) == 1:
			return nil, noPassword
		case a == nil:
			return nil, wrongPass
		}
	}
	u := a.user()
	if u == nil {
		u = nobody
	}
	if !u.Admits(password) {
		return nil, wrongPass
	}
	return a, ""
}

const helloNoAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"

// hello answers HELLO [protover [AUTH user password] [SETNAME name]].
func hello(c *session, args [][]byte, _ []byte) {
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
			if fault := nameFault(clientNames, name); fault != "" {
				c.fail(fault)
				return
			}
			i++
		default:
			c.fail("ERR Syntax error in HELLO option '" + string(args[i]) + "'")
			return
		}
	}
	if user != nil && !logIn(c, args[0], [][]byte{user, password}) {
		return
	}
	if !entered(c) {
		c.fail(helloNoAuth)
		return
	}
	// The reply is the first in the new protocol.
	if !c.settle() {
		return
	}
	who, err := c.srv.identify(c.ctx, protocol)
	if err != nil {
		c.unreachable(c.tag(), c.srv.target.name(), err)
		return
	}
	answered, ok := c.carrier.hello(protocol, who)
	if !ok {
		return
	}
	if err := c.setProtocol(protocol); err != nil {
		c.fail("ERR redoubt: " + err.Error())
		return
	}
	if named {
		c.info.change(func(i *clientInfo) { i.name = string(name) })
	}
	if !answered {
		c.scratch = appendHello(c.scratch[:0], protocol, c.id, who)
		c.reply(c.scratch)
	}
}

// become sets the client's user; nil: none.
func (c *session) become(a *account) {
	c.info.change(func(i *clientInfo) { i.account = a })
	c.rights.account = a
	c.scriptLimits.account.Store(a)
	c.authed, c.scanner.Unauthenticated = a != nil, resp.NotAuthenticated
	if c.authed {
		c.scanner.Unauthenticated = resp.Authenticated
	}
}

// enter gives the client its user before AUTH.
func (c *session) enter() {
	for {
		u := c.srv.users.Load()
		if u.open() {
			c.become(u.standard)
		} else {
			c.become(nil)
		}
		if c.srv.users.Load() == u { // else SetUsers may have overlooked it
			return
		}
	}
}

// entered reports whether the client has a user. A client without one gets the standard user if that needs no password
// any more.
func entered(c *session) bool {
	if !c.authed {
		c.enter()
	}
	return c.authed
}

// login makes the client a user that has given its password.
func (c *session) login(a *account) bool {
	c.become(a)
	if a != c.srv.users.Load().byName[a.user().Name()] { // SetUsers may have overlooked it
		c.become(nil)
		return false
	}
	return true
}
