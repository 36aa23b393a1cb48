package engine

import (
	"log/slog"
	"runtime/debug"

	"github.com/redoubt-go/redoubt/resp"
)

// A panic of a command is a fault of the engine, and costs that command its
// reply, not the host its process. What it did until then stays done and is
// logged as the state of its keys, no lock stays held, and the session goes
// on. The functions below are deferred by whoever runs commands.

// rescue turns the panic of a handler into its reply. The shards that the call
// holds are held still.
func (c *call) rescue(from int) {
	if r := recover(); r != nil {
		c.panicked(from, r)
		c.salvage()
		c.log()
	}
}

// rescueUnlocked is rescue for what holds no shards.
func (c *call) rescueUnlocked(from int) {
	if r := recover(); r != nil {
		c.forgetCharges() // a charge that can't be settled would make the next command panic
		c.panicked(from, r)
	}
}

// panicked replaces the reply, which begins at from in c.w.
func (c *call) panicked(from int, r any) {
	c.wait = nil
	if _, ok := r.(replyTooLarge); ok {
		c.w = resp.AppendError(give(c.w[:from]), c.tooLarge())
		return
	}
	if _, ok := r.(stopped); ok {
		c.w = resp.AppendError(give(c.w[:from]), errStopped)
		return
	}
	name := ""
	if c.cmd != nil {
		name = c.cmd.name
	}
	c.e.panicked("command", name, r)
	c.w = resp.AppendError(c.w[:from], "ERR internal error: "+panicText(r))
}

// give returns b in memory of its own size, when much of it is unused.
func give(b []byte) []byte {
	if cap(b) < maxIdleReply {
		return b
	}
	return clone(b)
}

// panicked notes a panic, with the stack of the goroutine that it was in.
func (e *Engine) panicked(what, name string, r any) {
	e.stats.panics.Add(1)
	if log := e.opts.Logger; log != nil {
		log.Error("the engine panicked", slog.String("in", what), slog.String("name", name),
			slog.String("panic", panicText(r)), slog.String("stack", string(debug.Stack())))
	}
}

// empty reports whether the value is a collection of nothing, which no key
// holds once its command has ended.
func (v *value) empty() bool {
	if v.obj == nil {
		return false
	}
	c, ok := v.obj.v.(interface{ len() int })
	return ok && c.len() == 0
}
