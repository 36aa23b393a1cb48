package engine

import (
	"strconv"
	"time"
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

func cmdNoStreams(c *call) { c.err("ERR streams are not supported by this engine") }

func cmdNoSave(c *call) { c.err("ERR " + c.cmd.Name + " is not supported by this engine") }

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
