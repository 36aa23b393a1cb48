package engine

import (
	"strings"

	"github.com/redoubt-go/redoubt/resp"
)

// Scripts runs scripts. It is what EVAL and its relatives, SCRIPT and
// FUNCTION are handed to; [Options.Scripts] sets it.
type Scripts interface {
	// Eval runs EVAL, EVALSHA, EVAL_RO, EVALSHA_RO, FCALL or FCALL_RO as given
	// by call, and appends its reply to dst. The shards of the script's keys
	// are locked, or all of them.
	Eval(dst []byte, call *ScriptCall) []byte
	// Manage runs SCRIPT and FUNCTION, whose arguments are given with the name,
	// and appends the reply to dst. No shard is locked.
	Manage(dst []byte, session *Session, args [][]byte) []byte
}

// A ScriptCall is one run of a script.
type ScriptCall struct {
	Session  *Session
	Args     [][]byte // EVAL, the script or its digest, the number of keys, …
	Keys     [][]byte
	Argv     [][]byte
	ReadOnly bool
	c        *call
	failed   bool
}

// Protocol is the one in which the script's reply is to be written.
func (sc *ScriptCall) Protocol() resp.Protocol { return sc.Session.proto }

// NowMS is the time of the script in Unix milliseconds. It stands still while
// the script runs.
func (sc *ScriptCall) NowMS() int64 { return sc.c.time() }

// Call runs a command of the script, redis.call, and appends its reply to dst
// in protocol p. A command that may not be run from a script, and one that
// uses a key whose shard is not locked, is answered with an error.
func (sc *ScriptCall) Call(dst []byte, p resp.Protocol, args [][]byte) []byte {
	fail := func(msg string) []byte { return resp.AppendError(dst, msg) }
	if len(args) == 0 {
		return fail("ERR Please specify at least one argument for this redis.call() call")
	}
	cmd := find(args[0])
	if cmd != nil {
		cmd = cmd.resolve(args)
	}
	switch {
	case cmd == nil:
		return fail("ERR Unknown Redis command called from script")
	case cmd.arity > 0 && len(args) != cmd.arity || len(args) < -cmd.arity:
		return fail("ERR Wrong number of args calling Redis command from script")
	case cmd.flags&(flagNoScript|flagControl) != 0:
		return fail("ERR This Redis command is not allowed from script")
	case sc.ReadOnly && cmd.flags&flagWrite != 0:
		return fail("ERR Write commands are not allowed from read-only scripts.")
	}
	if why := sc.c.e.unsavable(cmd); why != "" {
		return fail(why)
	}
	outer := sc.c
	var set shardSet
	if !outer.lockKeys(&set, cmd, args) && !outer.all {
		return fail("ERR Script attempted to use a command that needs every key without declaring it")
	}
	if more := set.minus(&outer.held); !more.empty() {
		return fail("ERR Script attempted to access a non local key in a cluster node")
	}
	c := call{e: outer.e, s: outer.s, cmd: cmd, args: args, w: dst, proto: p, db: sc.Session.db,
		held: outer.held, all: outer.all, now: outer.time(), us: outer.micros(), noBlock: true, scripted: true}
	if c.e.monitors.n.Load() > 0 {
		c.monitor(args)
	}
	c.runQueued()
	outer.reads = outer.reads || cmd.flags&flagReadonly != 0
	outer.broadcast = append(outer.broadcast, c.broadcast...)
	outer.ready = append(outer.ready, c.ready...)
	outer.dirty += c.dirty
	if c.journaled() {
		c.settleEffects()
		for i, args := range c.effects.commands {
			c.effects.commands[i] = cloneArgs(args)
		}
		outer.effects.join(&c.effects)
		outer.touched = append(outer.touched, c.touched...)
	}
	return c.w
}

func cloneArgs(args [][]byte) [][]byte {
	out := make([][]byte, len(args))
	for i, a := range args {
		out[i] = clone(a)
	}
	return out
}

func cmdEval(c *call)      { c.eval(false) }
func cmdEvalsha(c *call)   { c.eval(false) }
func cmdEvalRo(c *call)    { c.eval(true) }
func cmdEvalshaRo(c *call) { c.eval(true) }
func cmdFcall(c *call)     { c.eval(false) }
func cmdFcallRo(c *call)   { c.eval(true) }

func (c *call) eval(readOnly bool) {
	n, ok := c.argInt(c.args[2])
	switch {
	case !ok:
		return
	case n > int64(len(c.args)-3):
		c.err("ERR Number of keys can't be greater than number of args")
		return
	case n < 0:
		c.err("ERR Number of keys can't be negative")
		return
	}
	if c.e.opts.Scripts == nil {
		c.err("ERR scripts are not supported by this engine")
		return
	}
	c.logged = true // what the script's commands log
	db := c.s.db
	sc := &ScriptCall{Session: c.s, Args: c.args, Keys: c.args[3 : 3+n], Argv: c.args[3+n:], ReadOnly: readOnly, c: c}
	c.w = c.e.opts.Scripts.Eval(c.w, sc)
	c.s.db = db
}

func (c *call) manageScripts() {
	if c.e.opts.Scripts == nil {
		top, sub, _ := strings.Cut(c.cmd.name, "|")
		if sub == "flush" {
			c.ok()
			return
		}
		c.err("ERR " + strings.ToUpper(top) + " is not supported by this engine")
		return
	}
	c.w = c.e.opts.Scripts.Manage(c.w, c.s, c.args)
}

func cmdScriptLoad(c *call)      { c.manageScripts() }
func cmdScriptKill(c *call)      { c.manageScripts() }
func cmdScriptDebug(c *call)     { c.manageScripts() }
func cmdScriptExists(c *call)    { c.manageScripts() }
func cmdScriptFlush(c *call)     { c.manageScripts() }
func cmdFunctionRestore(c *call) { c.manageScripts() }
func cmdFunctionDelete(c *call)  { c.manageScripts() }
func cmdFunctionList(c *call)    { c.manageScripts() }
func cmdFunctionLoad(c *call)    { c.manageScripts() }
func cmdFunctionKill(c *call)    { c.manageScripts() }
func cmdFunctionDump(c *call)    { c.manageScripts() }
func cmdFunctionFlush(c *call)   { c.manageScripts() }
func cmdFunctionStats(c *call)   { c.manageScripts() }
