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

func cmdScriptKill(c *call) {
	killed, unkillable := c.e.scripts.kill()
	switch {
	case killed > 0:
		c.ok()
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

// Functions can't be loaded, so there are none.

const errFunctions = "ERR functions are not supported by this engine: use EVAL, or SCRIPT LOAD and EVALSHA"

func cmdFcall(c *call)           { c.err("ERR Function not found") }
func cmdFcallRo(c *call)         { c.err("ERR Function not found") }
func cmdFunctionLoad(c *call)    { c.err(errFunctions) }
func cmdFunctionRestore(c *call) { c.err(errFunctions) }
func cmdFunctionDump(c *call)    { c.err(errFunctions) }
func cmdFunctionDelete(c *call)  { c.err("ERR Library not found") }
func cmdFunctionKill(c *call)    { c.err("NOTBUSY No scripts in execution right now.") }

func cmdFunctionFlush(c *call) {
	if c.flushMode("ERR FUNCTION FLUSH only supports SYNC|ASYNC option") {
		c.ok()
	}
}

func cmdFunctionList(c *call) {
	for i := 2; i < len(c.args); i++ {
		switch {
		case is(c.args[i], "withcode"):
		case is(c.args[i], "libraryname") && i+1 < len(c.args):
			i++
		case is(c.args[i], "libraryname"):
			c.err("ERR library name argument was not given")
			return
		default:
			c.err("ERR Unknown argument " + clip(c.args[i], 128))
			return
		}
	}
	c.array(0)
}

func cmdFunctionStats(c *call) {
	c.mapHead(2)
	c.str("running_script")
	c.null()
	c.str("engines")
	c.mapHead(0)
}
