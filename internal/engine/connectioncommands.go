package engine

import (
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

func cmdPing(c *call) {
	if len(c.args) > 2 {
		c.err("ERR wrong number of arguments for 'ping' command")
		return
	}
	if c.s.subs.count > 0 && !c.isRESP3() {
		c.array(2)
		c.str("pong")
		if len(c.args) == 2 {
			c.bulk(c.args[1])
		} else {
			c.str("")
		}
		return
	}
	if len(c.args) == 2 {
		c.bulk(c.args[1])
	} else {
		c.status("PONG")
	}
}

func cmdEcho(c *call) { c.bulk(c.args[1]) }

func cmdTime(c *call) {
	us := c.micros()
	if !c.scripted && !c.noBlock { // in a script and in a transaction it stands still
		us = c.e.clock.Now().UnixMicro()
	}
	c.array(2)
	c.str(strconv.FormatInt(us/1e6, 10))
	c.str(strconv.FormatInt(us%1e6, 10))
}

func cmdSelect(c *call) {
	if n, ok := c.argDB(c.args[1]); ok {
		c.s.db, c.db = n, n
		c.ok()
	}
}

func cmdNoShutdown(c *call) { c.err("ERR " + c.cmd.Name + " is not supported by this engine") }

func cmdDebug(c *call) {
	switch a := c.args[1]; {
	case is(a, "sleep") && len(c.args) == 3:
		f, ok := parseFloat(c.args[2])
		if !ok || f < 0 || f > 3600 {
			c.err(errNotFloat)
			return
		}
		done := make(chan struct{})
		timer := c.e.clock.AfterFunc(time.Duration(f*float64(time.Second)), func() { close(done) })
		defer timer.Stop()
		select {
		case <-done:
		case <-c.e.scripts.over:
		case <-c.s.group.ended():
		}
		c.ok()
	case is(a, "set-active-expire") && len(c.args) == 3:
		off := string(c.args[2]) == "0"
		c.e.sweeper.off.Store(off)
		if !off {
			c.e.sweeper.wake(c.e, c.e.nowMS())
		}
		c.ok()
	case is(a, "jmap"), is(a, "quicklist-packed-threshold"), is(a, "stringmatch-len"), is(a, "set-disable-deny-scripts"):
		c.ok()
	default:
		c.err("ERR unknown subcommand or wrong number of arguments for '" + clip(a, 128) + "'. Try DEBUG HELP.")
	}
}

// cmdHello answers HELLO [protover [AUTH user password] [SETNAME name]].
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
			if !c.nameFits(name) {
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
	if c.e.master.Load() != nil {
		c.str("replica")
	} else {
		c.str("master")
	}
	c.str("modules")
	c.array(0)
}

const (
	wrongPass  = "WRONGPASS invalid username-password pair or user is disabled."
	noPassword = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
)

// cmdAuth knows one user, default, with any password.
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

// cmdLolwut answers LOLWUT without the art.
func cmdLolwut(c *call) { c.verbatim("Redis ver. " + redisVersion + "\n") }

// cmdModuleList: the engine loads no modules.
func cmdModuleList(c *call) { c.array(0) }

func cmdModuleHelp(c *call) { c.helpLines("LIST", "    Return a list of loaded modules.") }
