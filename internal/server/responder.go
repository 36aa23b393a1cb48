package server

import (
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A responder gives each reply to a client its place, and makes the replies of this process. The
// session's goroutine owns it, except the output.
type responder struct {
	out      output
	carrier  carrier
	next     uint64       // the tag of the next command
	readAt   latency.Time // when the commands at hand were read
	protocol resp.Protocol
	muted    bool    // the command at hand gets no reply
	capture  *[]byte // takes the replies of this process instead of out; may be nil
	scratch  []byte
	failures int               // errors of this process so far
	onFail   func(text string) // is called for each; may be nil
}

// tag takes the next place in the order of replies.
//
// It keeps the order. The commands of a span take their places without it, and these must be
// consecutive. So tag sends the span first. Every other reply, and every command that is not sent as
// part of a span, takes its place here. No caller has to think of the span.
func (r *responder) tag() uint64 {
	r.carrier.sendSpan()
	t := r.next
	r.next++
	return t
}

// prepare takes the next place, for a reply that s changes.
func (r *responder) prepare(s slot) uint64 {
	t := r.tag()
	if s.mute = r.muted; s.mute || s.change != nil || s.script != nil {
		r.out.prepare(t, s)
	}
	return t
}

// prepareScript is prepare for the script of an extension command.
func (r *responder) prepareScript(p command.Plan) uint64 {
	return r.prepare(slot{script: p.Translate, protocol: r.protocol, undo: p.Undo})
}

// reply answers a command.
func (r *responder) reply(raw []byte) {
	if r.capture != nil {
		*r.capture = append(*r.capture, raw...)
		return
	}
	r.out.Reply(r.prepare(slot{}), raw)
	if cap(r.scratch) > maxIdleOutput {
		r.scratch = nil
	}
}

// fail answers a command with an error.
func (r *responder) fail(text string) {
	r.failures++
	if r.onFail != nil {
		r.onFail(text)
	}
	r.scratch = resp.AppendError(r.scratch[:0], text)
	r.reply(r.scratch)
}

func (r *responder) ok() { r.reply(okRaw) }

// text answers with a text. In RESP3 the reply names the format of the text.
func (r *responder) text(s string) {
	r.scratch = resp.AppendVerbatim(r.scratch[:0], r.protocol, "txt", s)
	r.reply(r.scratch)
}
