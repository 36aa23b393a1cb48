package server

import (
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A responder gives the replies to a client their places, and makes those that are made here. Owned
// by the session's goroutine, except the output.
type responder struct {
	out      output
	next     uint64 // the tag of the next command
	protocol resp.Protocol
	muted    bool    // the command at hand gets no reply
	capture  *[]byte // replies made here go there instead; may be nil
	scratch  []byte
}

// tag takes the next place in the order of replies.
func (r *responder) tag() uint64 {
	t := r.next
	r.next++
	return t
}

// prepare takes the next place for a reply that becomes what s says.
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

// reply answers a command here.
func (r *responder) reply(raw []byte) {
	if r.capture != nil {
		*r.capture = append(*r.capture, raw...)
		return
	}
	r.out.Reply(r.prepare(slot{}), raw)
}

// fail answers a command with an error.
func (r *responder) fail(text string) {
	r.scratch = resp.AppendError(r.scratch[:0], text)
	r.reply(r.scratch)
}

func (r *responder) ok() { r.reply(okRaw) }

// text answers with a text, which RESP3 gives its format.
func (r *responder) text(s string) {
	r.scratch = resp.AppendVerbatim(r.scratch[:0], r.protocol, "txt", s)
	r.reply(r.scratch)
}
