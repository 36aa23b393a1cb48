package engine

import (
	"errors"
	"time"

	"github.com/redoubt-go/redoubt/internal/lua"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// scriptTimeout is the default of Options.ScriptTimeout.
const scriptTimeout = time.Minute

// A scriptHost runs the commands of a session's scripts, one script at a time.
type scriptHost struct {
	outer    *call // EVAL
	inner    call  // the command of the script
	readOnly bool
	asks     func(args [][]byte) string // what the script may not run; nil: it may run all
	refuses  func(args [][]byte) string // the same, for a command that it runs
	allowOOM bool
	digest   string
	run      scriptRun
	running  *scriptRun // run, while it is Lua that runs
	tx       Tx
	reply    []byte
	failed   []byte       // the last error of a command, which is counted already
	held     int          // bytes of reply, reserved from the memory of all scripts
	long     bool         // the last command took so
	argv     [][]byte     // of a native's command
	words    [16][32]byte // see Tx.Word
	wordsAt  int
	declared [][]byte // the script's keys
	keys     []string
	args     []string
}

var (
	_ lua.Host = (*scriptHost)(nil)
	_ lua.ACL  = (*scriptHost)(nil)
)

func cmdEval(c *call)      { c.eval(false, false) }
func cmdEvalRo(c *call)    { c.eval(false, true) }
func cmdEvalsha(c *call)   { c.eval(true, false) }
func cmdEvalshaRo(c *call) { c.eval(true, true) }

// anyWrite stands for a command that writes. While such are refused, every script runs as Lua, which has its own order of reads
// and writes.
var anyWrite = &command{flags: flagWrite}

func (c *call) eval(loaded, readOnly bool) {
	if loaded && len(c.args[1]) != digestLen {
		c.err(errNoScript)
		return
	}
	n, why := declared(c.args)
	if why != "" {
		c.err(why)
		return
	}
	var sc *script
	if loaded {
		if sc = c.s.script(c.args[1]); sc == nil {
			c.err(errNoScript)
			return
		}
	} else {
		err := c.script.err
		if sc = c.script.script; err == nil && c.s.executing {
			sc, err = c.e.cache.add(sc, false, &c.e.bounds)
		}
		if err != nil {
			c.err("ERR " + err.Error())
			return
		}
	}
	if readOnly && sc.mayWrite {
		c.err("ERR Can not execute a script with write flag using *_ro command.")
		return
	}
	if c.oom && sc.needsRoom() {
		c.err(errOOM)
		return
	}
	h := c.beginScript(sc.digest, c.args[3:3+n])
	h.readOnly, h.allowOOM = readOnly || sc.readOnly, sc.allowOOM
	db := c.s.db
	defer func() {
		c.s.db = db
		h.release()
	}()
	keys, args := c.args[3:3+n], c.args[3+n:]
	if sc.native == nil || readOnly || c.oom || c.s.unwritable(anyWrite) != "" || !h.native(sc.native, keys, args) {
		h.lua(sc, keys, args)
	}
}

// beginScript returns the session's host, made ready for a script. A function has no digest.
func (c *call) beginScript(digest string, keys [][]byte) *scriptHost {
	c.logged = true // the script's commands log their own changes
	h := c.s.host
	if h == nil {
		h = &scriptHost{argv: make([][]byte, 0, roomyArgs), reply: make([]byte, 0, roomyReply)}
		h.inner.charges = make([]charge, 0, roomyCharges)
		c.s.host = h
	}
	h.outer, h.digest, h.declared = c, digest, keys
	h.run.wrote.Store(false)
	h.run.function, h.run.command = "", nil
	h.asks, h.refuses = nil, nil
	if c.s.limits != nil {
		h.asks, h.refuses = c.s.limits(digest, keys)
	}
	return h
}

// lua runs a script on the Lua machine.
func (h *scriptHost) lua(sc *script, keys, args [][]byte) {
	h.onLua(keys, args, sc.digest, func(inv lua.Invocation) error {
		return h.outer.e.lua.Run(sc.proto, inv, (*scriptReply)(h.outer))
	})
}

// onLua runs a script or a function, which has a name, on the Lua machine. The arguments are read in place.
func (h *scriptHost) onLua(keys, args [][]byte, name string, run func(lua.Invocation) error) {
	c := h.outer
	h.keys, h.args = h.keys[:0], h.args[:0]
	for _, k := range keys {
		h.keys = append(h.keys, text(k))
	}
	for _, a := range args {
		h.args = append(h.args, text(a))
	}
	h.failed = h.failed[:0]
	c.timeFromNow() // a native left it to the script
	inv := lua.Invocation{Host: h, Keys: h.keys, Args: h.args, Interrupt: &h.run.interrupt, Long: c.e.waker.wake}
	if t := c.e.opts.ScriptTimeout; t >= 0 {
		if t == 0 {
			t = scriptTimeout
		}
		inv.Deadline = time.Now().Add(t)
	}
	h.run.interrupt.Clear()
	h.run.group = c.s.group
	h.run.deadline = inv.Deadline
	h.run.wrote.Store(false)
	h.run.held, h.run.all = c.held, c.all
	c.e.scripts.begin(&h.run, c.e.scriptLimit)
	defer c.e.scripts.end(&h.run)
	h.running = &h.run
	defer func() { h.running = nil }()
	from := len(c.w)
	// The error is the reply too.
	if err := run(inv); errors.Is(err, lua.ErrInternal) {
		c.e.panicked("script", name, err)
	}
	if len(c.w) > from && c.w[from] != '-' {
		h.failed = h.failed[:0]
	}
	if c.unfit != "" {
		c.refuseReply(from, c.unfit)
		c.unfit = ""
	}
}

const scriptsHold = "the scripts that run at once hold too much memory"

// reserve counts n bytes for the reply to a command of the script, until the next command, in the
// memory of all scripts. It reports whether there is room.
func (h *scriptHost) reserve(n int) bool {
	more := n - h.held
	if more > 0 && !h.outer.e.lua.Reserve(more) {
		return false
	}
	if more < 0 {
		h.outer.e.lua.Release(-more)
	}
	h.held = n
	return true
}

// bytesOf returns how many bytes effects count for a command.
func bytesOf(args [][]byte) (n int) {
	for _, a := range args {
		n += len(a) + perName
	}
	return n
}

// release forgets the run, and keeps memory that is small.
func (h *scriptHost) release() {
	h.reserve(0)
	h.outer, h.tx, h.declared, h.asks, h.refuses, h.run.command = nil, Tx{}, nil, nil, nil, nil
	clear(h.argv)
	clear(h.keys)
	clear(h.args)
	if cap(h.reply) > maxIdleReply {
		h.reply = nil
	}
	if cap(h.keys)+cap(h.args) > 1<<10 {
		h.keys, h.args = nil, nil
	}
}

// Call is redis.call.
func (h *scriptHost) Call(args [][]byte, r *lua.Reply) {
	p := resp.RESP2
	if r.RESP3() {
		p = resp.RESP3
	}
	h.reply = h.command(h.reply[:0], p, args)
	if h.reply[0] == '-' {
		h.outer.e.errors.count(h.reply)
		h.failed = append(h.failed[:0], h.reply[:len(h.reply)-len("\r\n")]...)
	}
	if cap(h.reply) <= maxIdleReply {
		passReply(h.reply, r)
	} else {
		long := h.reply
		h.reply = nil
		h.reserve(0) // it counts as the script's own
		r.Hold(cap(long))
		passReply(long, r)
	}
	if h.long {
		h.long = false
		r.Look()
	}
}

// longCommand is how long a command of a script takes after which the script's
// own time is looked at.
const longCommand = 50 * time.Microsecond

// Allowed is redis.acl_check_cmd.
func (h *scriptHost) Allowed(args [][]byte) (allowed, known bool) {
	cmd := find(args[0])
	allowed = cmd != nil && (h.asks == nil || h.asks(args) == "")
	return allowed, cmd != nil && cmd.resolve(args) != nil
}

// refuse returns why a script may not run a command, "" when it may.
func (h *scriptHost) refuse(cmd *command, args [][]byte) string {
	switch {
	case cmd == nil:
		return "ERR Unknown Redis command called from script"
	case !cmd.Takes(len(args)):
		return "ERR Wrong number of args calling Redis command from script"
	case cmd.flags&(flagNoScript|flagControl) != 0:
		return "ERR This Redis command is not allowed from script"
	}
	if h.refuses != nil {
		if why := h.refuses(args); why != "" {
			return why
		}
	}
	if h.readOnly && cmd.flags&(flagWrite|flagMayReplicate) != 0 {
		return "ERR Write commands are not allowed from read-only scripts."
	}
	c := h.outer
	if why := c.e.bounds.tooMuch(args); why != "" {
		return why
	}
	if c.oom && !h.allowOOM && cmd.flags&flagDenyOOM != 0 && !h.run.wrote.Load() {
		return errOOM
	}
	if cmd.flags&flagWrite != 0 {
		if why := c.effects.overdone(c.e); why != "" {
			return why
		}
		if c.journaled() && !c.reserveEffects(c.effects.bytes+bytesOf(args)) {
			return "ERR the changes of the script have no room: " + scriptsHold
		}
	}
	if c.dirty == 0 { // a script that has written is let finish
		if why := c.s.unwritable(cmd); why != "" {
			return why
		}
	}
	if cmd.flags&flagOneKey != 0 && h.atHome(args[1]) {
		return ""
	}
	var set shardSet
	if !c.lockKeys(&set, cmd, args) && !c.all {
		c.e.mistaken(h.digest)
		return "ERR Script attempted to use a command that needs every key without declaring it"
	}
	// PUBLISH and its like take no shard, whatever their keys are.
	if more := set.minus(&c.held); !more.empty() && cmd.flags&flagNoLock == 0 {
		c.e.mistaken(h.digest)
		return "ERR Script attempted to access a non local key in a cluster node"
	}
	return ""
}

// atHome reports whether key is one of the script's keys, and their shard is known.
func (h *scriptHost) atHome(key []byte) bool {
	if h.outer.home == nil {
		return false
	}
	for _, k := range h.declared {
		if string(k) == string(key) {
			return true
		}
	}
	return false
}

// command runs a command of the script and appends its reply, in protocol p,
// to dst. The memory of args is free again when it returns.
func (h *scriptHost) command(dst []byte, p resp.Protocol, args [][]byte) []byte {
	cmd := find(args[0])
	if cmd != nil {
		cmd = cmd.resolve(args)
	}
	return h.execute(dst, p, cmd, args)
}

// execute is command for one that is found already, or nil.
func (h *scriptHost) execute(dst []byte, p resp.Protocol, cmd *command, args [][]byte) []byte {
	if why := h.refuse(cmd, args); why != "" {
		if cmd != nil {
			h.outer.e.commandStats.of(cmd).rejected.Add(1)
		}
		return resp.AppendError(dst, why)
	}
	outer, c := h.outer, &h.inner
	if cmd.flags&flagWrite != 0 {
		h.run.wrote.Store(true)
	}
	homeKey := outer.homeKey
	if cmd.flags&(flagOneKey|flagNoLock) == flagOneKey && outer.home != nil { // it is in the same shard, or refuse had refused it
		homeKey = args[1]
	}
	kept, keyBuf, charges := c.effects.commands[:0], c.keyBuf, c.charges
	*c = call{} // by fields: a whole call would be written twice
	c.e, c.s, c.cmd, c.args, c.w, c.proto, c.db, c.keyBuf = outer.e, outer.s, cmd, args, dst, p, outer.s.db, keyBuf
	c.held, c.all, c.home, c.homeKey, c.now, c.us = outer.held, outer.all, outer.home, homeKey, outer.time(), outer.micros()
	c.noBlock, c.scripted, c.running = true, true, h.running
	c.effects.commands, c.charges = kept, charges
	if c.e.monitors.n.Load() > 0 {
		c.monitor(args)
	}
	if cmd.flags&flagQuick != 0 || h.running == nil { // only Lua has time of its own
		c.runQueued()
	} else {
		began := time.Now()
		c.runQueued()
		h.long = time.Since(began) > longCommand
	}
	c.settle()
	outer.reads = outer.reads || cmd.flags&flagReadonly != 0
	for _, key := range c.broadcast {
		outer.broadcast = append(outer.broadcast, clone(key))
		outer.effects.bytes += len(key) + perName
	}
	outer.effects.bytes += len(c.ready) * perName
	outer.ready = append(outer.ready, c.ready...)
	outer.dirty += c.dirty
	if c.journaled() {
		c.settleEffects()
		for i, args := range c.effects.commands {
			c.effects.commands[i] = cloneArgs(args)
		}
		outer.effects.join(&c.effects)
		for _, key := range c.touched {
			outer.touched = append(outer.touched, clone(key))
			outer.effects.bytes += len(key) + perName
		}
		outer.countEffects()
	}
	w := c.w
	c.args, c.w, c.s = nil, nil, nil
	return w
}

func cloneArgs(args [][]byte) [][]byte {
	out := make([][]byte, len(args))
	for i, a := range args {
		out[i] = clone(a)
	}
	return out
}
