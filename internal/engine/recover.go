package engine

import (
	"log/slog"
	"runtime/debug"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// A panic of a command is a fault of the engine. It costs that command its reply, not the host its
// process. Whatever the command did before the panic stays, and the engine logs the state of its
// keys. No lock stays held, and the session goes on. Callers that run commands defer the functions
// below.

// recoverLocked turns the panic of a handler into its reply. The call still holds its shards.
func (c *call) recoverLocked(from int) {
	if r := recover(); r != nil {
		c.panicked(from, r)
		c.logPanicked(r)
		c.log()
	}
}

// recoverUnlocked is recoverLocked for a call that holds no shards.
func (c *call) recoverUnlocked(from int) {
	if r := recover(); r != nil {
		c.forgetCharges() // a charge that can't be settled would make the next command panic
		c.panicked(from, r)
	}
}

// panicked replaces the reply, which begins at from in c.w.
func (c *call) panicked(from int, r any) {
	c.wait = nil
	if why, ok := r.(replyTooLarge); ok {
		c.refuseReply(from, string(why))
		return
	}
	if _, ok := r.(stopped); ok {
		c.refuseReply(from, errStopped)
		return
	}
	name := ""
	if c.cmd != nil {
		name = c.cmd.Name
	}
	c.e.panicked("command", name, r)
	c.w = resp.AppendError(c.w[:from], "ERR internal error: "+panicText(r))
}

// refuseReply replaces the reply, which begins at from in c.w, by an error, and frees memory that
// is mostly unused then.
func (c *call) refuseReply(from int, why string) {
	w := c.w[:from]
	if cap(w) > maxIdleReply && len(w) < cap(w)/2 {
		w = append(make([]byte, 0, len(w)+2*replySlack+len(why)), w...)
		c.roomy = 0
		c.holdReply(cap(w)) // which is less
	}
	c.w = resp.AppendError(w, why)
}

// panicked logs a panic with the stack of its goroutine.
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
	return v.kind() != kindString && v.kind() != kindStream && v.len() == 0
}
