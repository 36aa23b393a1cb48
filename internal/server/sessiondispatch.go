package server

import (
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// plain reports whether the command at hand may go as it is, if nothing else is known about it.
func (c *session) plain() bool {
	return c.authed && c.replies == repliesOn && !c.tx.active && !c.scanner.Inline()
}

// special runs every command but the plainest. h is nil for a command that the server does
// nothing about itself.
func (c *session) special(h *handler, args [][]byte, raw []byte) {
	c.mute()
	c.note(args)
	c.countLocal() // unless it is sent
	switch {
	case (h == nil || !h.beforeAuth) && !entered(c):
		c.fail("NOAUTH Authentication required.")
	case c.scanner.Inline():
		c.guard(h, args, resp.AppendCommand(nil, args...))
	default:
		c.guard(h, args, raw)
	}
	c.muted = false
}

// mute says whether the command at hand gets a reply.
func (c *session) mute() {
	switch c.replies {
	case repliesOn:
	case repliesOff:
		c.muted = true
	case skipNext:
		c.muted, c.replies = true, repliesOn
	}
}

// guard has the carrier run a command that the client's user may run, and refuses others. A panic becomes an error reply.
func (c *session) guard(h *handler, args [][]byte, raw []byte) {
	defer func() {
		if v := recover(); v != nil {
			c.panicked(v)
			c.fail("ERR redoubt: internal error")
		}
	}()
	var k *keySpec
	var refusal string
	if c.rights.limited() {
		k = c.known.lookup(args[0])
		refusal = c.rights.refusal(k, h, args)
	}
	if refusal != "" && c.rights.denial.Loggable() {
		context := "toplevel"
		if c.tx.active {
			context = "multi"
		}
		noteDenial(c, c.rights.denial.Reason, context, c.rights.denial.Object, c.rights.user.Name(), inputOf(c, args))
	}
	if refusal != "" && c.counter != nil {
		if k != nil {
			if sub := k.Of(args); sub != nil {
				c.counter.Refused(sub.Name)
			}
		} else if h != nil {
			c.counter.Refused(h.name)
		}
	}
	switch {
	case refusal == "" && c.tx.next != nil && loseRight(c, c.known.lookup(args[0]), h, args):
	case refusal == "":
		c.carrier.run(h, args, raw)
	case k != nil && k.name == "exec": // as Redis has it, whether or not there was a MULTI
		c.carrier.abandon("EXECABORT Transaction discarded because of: " + refusal)
	default:
		c.reject(refusal)
	}
}

// handle runs the handler of a command.
func (c *session) handle(h *handler, args [][]byte, raw []byte) {
	if h.command != nil {
		c.extension(h, args, raw)
		return
	}
	if h.checked && !h.redis.Takes(len(args)) {
		c.reject("ERR wrong number of arguments for '" + h.name + "' command")
		return
	}
	if !h.quick {
		c.yieldLead() // rare, and may ask the back end
	}
	h.run(c, args, raw)
}

// extension runs an extension command.
func (c *session) extension(h *handler, args [][]byte, raw []byte) {
	c.belongs(h.family, func() {
		if c.carrier.extends(h, args, raw) {
			c.plan(h, args, h.command.Plan(c.srv.env, args))
		}
	})
}

// plan does what is planned for an extension command.
func (c *session) plan(h *handler, args [][]byte, p command.Plan) {
	switch {
	case p.Err != "" && c.tx.active:
		c.queueAnswer(resp.AppendError(nil, p.Err))
	case p.Err != "":
		c.fail(p.Err)
	case p.Wait != nil && c.tx.active:
		c.plan(h, args, p.Instead())
	case p.Wait != nil:
		c.as(Waited)
		c.await(h.family, p)
	default:
		c.carrier.script(h, args, p)
	}
}
