package server

import (
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// single is the route to one server, over a connection that all clients share.
type single struct {
	direct
	sender

	control *proxy.Upstream // it has something of this client's to send; nil: nothing
}

func (r *single) dispatch(args [][]byte, raw []byte) {
	h := r.srv.lookup(args[0])
	if h == nil && r.plain() && r.rights.permitPlain(&r.known, args) {
		r.commands[Passed]++
		r.pass(raw)
		return
	}
	r.special(h, args, raw)
}

func (r *single) forward(raw []byte, change translate) { r.sender.forward(raw, change) }

func (r *single) script(_ *handler, _ [][]byte, p command.Plan) {
	r.as(Rewritten)
	r.sender.script(p)
}

// carries sends PING to the server, so CLIENT PAUSE holds the answer back, and the answer says that
// the server works. ECHO is answered here.
func (r *single) carries(h *handler, raw []byte) bool {
	if h.name == "ping" {
		r.byControl(raw)
	}
	return h.name == "ping"
}

func (r *single) client(sub string, args [][]byte, raw []byte) bool {
	if sub != "pause" && sub != "unpause" {
		return r.direct.client(sub, args, raw)
	}
	if r.quiesce() { // it travels on another connection than what comes before and behind it
		r.byControl(raw)
		r.flushControl()
		r.settle()
	}
	return true
}

// byControl sends a command on a connection without writes. The back end answers there even while
// CLIENT PAUSE holds back writes elsewhere.
func (r *single) byControl(raw []byte) {
	r.as(Passed)
	t := r.prepare(slot{})
	u, err := r.target.control()
	if err == nil {
		err = u.Send(&r.out, t, 1, raw)
	}
	if err != nil {
		r.unsent(t, err)
		return
	}
	r.control = u
}

func (r *single) setProtocol(p resp.Protocol) error {
	u, err := r.target.upstream(p)
	if err == nil {
		r.upstream = u
	}
	return err
}

func (r *single) flush() {
	r.sendSpan()
	r.flushControl()
	r.upstream.Flush()
}

func (r *single) flushControl() {
	if r.control != nil {
		r.control.Flush()
		r.control = nil
	}
}

// gather is for pollers, which serve no client of a single.
func (r *single) gather(to []*proxy.Upstream) ([]*proxy.Upstream, bool) { return to, true }
