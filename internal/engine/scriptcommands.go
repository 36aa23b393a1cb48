package engine

// script is find for a session. It tries the session's last script first, without a lock that cores
// share.
func (s *Session) script(digest []byte) *script {
	flushes := s.e.cache.flushes.Load()
	if last := s.lastScript; last != nil && last.digest == text(digest) && flushes == s.scriptFlushes {
		return last
	}
	found := s.e.cache.find(digest)
	if s.lastScript, s.scriptFlushes = found, flushes; found != nil && found.size > smallScript {
		s.lastScript = nil
	}
	return found
}

func cmdScriptLoad(c *call) {
	sc, err := c.script.script, c.script.err
	switch {
	case !c.s.executing:
		sc, err = c.e.cache.load(c.args[2], true, c.e)
	case err == nil:
		sc, err = c.e.cache.add(sc, true, &c.e.bounds)
	}
	if err != nil {
		c.err("ERR " + err.Error())
		return
	}
	c.str(sc.digest)
}

func cmdScriptExists(c *call) {
	c.array(len(c.args) - 2)
	for _, digest := range c.args[2:] {
		c.boolInt(c.e.cache.find(digest) != nil)
	}
}

func cmdScriptFlush(c *call) {
	if !c.flushMode("ERR SCRIPT FLUSH only support SYNC|ASYNC option") {
		return
	}
	c.e.cache.flush()
	c.ok()
}

// flushMode checks the optional last argument of SCRIPT FLUSH and its like.
func (c *call) flushMode(otherwise string) bool {
	if len(c.args) == 2 || len(c.args) == 3 && (is(c.args[2], "sync") || is(c.args[2], "async")) {
		return true
	}
	c.err(otherwise)
	return false
}

func cmdScriptKill(c *call) { c.kill(true) }

// kill is SCRIPT KILL for scripts of EVAL, and FUNCTION KILL for functions.
func (c *call) kill(eval bool) { //nolint:revive // the parameter is what to kill
	killed, unkillable, other := c.e.scripts.kill(eval)
	switch {
	case killed > 0:
		c.ok()
	case unkillable == 0 && other && eval:
		c.err(busyFunction)
	case unkillable == 0 && other:
		c.err(busy)
	case unkillable > 0:
		c.err("UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.")
	default:
		c.err("NOTBUSY No scripts in execution right now.")
	}
}

func cmdScriptDebug(c *call) {
	switch {
	case is(c.args[2], "no"):
		c.ok()
	case is(c.args[2], "yes"), is(c.args[2], "sync"):
		c.err("ERR this engine has no debugger for scripts")
	default:
		c.err("ERR Use SCRIPT DEBUG YES/SYNC/NO")
	}
}
