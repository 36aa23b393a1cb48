package redoubt

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Of Options.DownAfter.
	defaultDownAfter = time.Second
	minDownAfter     = 10 * time.Millisecond
	// A server is down after downSteps steps of silence. DownAfter has stepsPerDown steps, one more,
	// because a call may begin just after a step did.
	stepsPerDown = 5
	downSteps    = stepsPerDown - 1
	// pingStep is the step of silence at which the server is asked for a sign of
	// life, because the calls under way may just take long.
	pingStep = 2
	// blockedSteps is how many steps pass before such a question while only
	// blocking commands are under way, which are meant to take long.
	blockedSteps = 25
	// probePatience is how many steps a PING to a node that is down may take: more
	// than DownAfter, or a node on a slow link, where a new connection takes long,
	// would never be up again.
	probePatience = 3 * stepsPerDown
	// probedSteps is for how many steps a node that is down is asked again and again
	// after the last call to it.
	probedSteps = 50
	// graceShare of DownAfter is what a pipeline gets to say which of its commands
	// were never sent, before its callers go.
	graceShare = 20
)

// A health watches the calls to one node, and decides whether the node is down.
//
// A node is down when calls were under way for DownAfter and none got a reply, not even a PING. That ends
// all calls under way, and later calls fail at once. Meanwhile the health sends PINGs until the node
// answers one, or until no call has come for a while; then the next call waits for a PING.
//
// Silence is counted in steps of a timer and not read off the clock: when this process or its machine is
// suspended, so are the steps.
//
// Rejected: a deadline per call, which would end a long pipeline or a blocking command on a healthy server
// and costs a timer per call; letting the next call find out whether the node is back, which would cost
// that call DownAfter.
type health struct {
	client *Client
	conn   Conn
	node   string
	step   time.Duration // 0: the node is never down

	replies atomic.Uint64
	outage  atomic.Pointer[outage] // nil: the node is not known to be down

	mu      sync.Mutex
	calls   []*watched // under way
	blocked int        // how many of them are Blocking
	key     string     // one that the node owns, if it is a cluster's
	timer   *time.Timer
	every   time.Duration     // what the timer is set to; 0: it isn't set
	seen    uint64            // replies at the last step
	silent  int               // steps since the last reply in which a call was under way
	since   time.Time         // of the silence
	asked   bool              // a PING is under way
	gone    chan struct{}     // closed when callers of pipelines must not wait any longer
	was     *UnavailableError // why it was closed
}

// A watched is a call under way.
type watched struct {
	ctx      context.Context //nolint:containedctx // that of the call
	cancel   context.CancelCauseFunc
	index    int // in health.calls
	blocking bool
}

func newHealth(c *Client, conn Conn, node string) *health {
	return &health{client: c, conn: conn, node: node, step: c.downAfter / stepsPerDown, gone: make(chan struct{})}
}

// do is Conn.Do for a call that is not merged with others.
func (h *health) do(ctx context.Context, cmd Cmd) Reply {
	if err := h.allow(ctx); err != nil {
		return Reply{Err: err}
	}
	return h.send(ctx, cmd)
}

// send is do for a call that was allowed.
func (h *health) send(ctx context.Context, cmd Cmd) Reply {
	if h.step == 0 {
		return h.conn.Do(ctx, cmd)
	}
	w := h.begin(ctx, cmd.Flags&Blocking != 0, &cmd)
	r := h.conn.Do(w.ctx, cmd)
	h.end(w, answered(r))
	r.Err = h.explain(w, r.Err)
	return r
}

// pipeline is Conn.Pipeline for commands of this node.
func (h *health) pipeline(ctx context.Context, cmds []Cmd) []Reply {
	if err := h.allow(ctx); err != nil {
		return allFail(cmds, err)
	}
	if h.step == 0 || len(cmds) == 0 {
		return h.conn.Pipeline(ctx, cmds)
	}
	blocking := slices.ContainsFunc(cmds, func(c Cmd) bool { return c.Flags&Blocking != 0 })
	w := h.begin(ctx, blocking, &cmds[0])
	replies := h.conn.Pipeline(w.ctx, cmds)
	h.end(w, slices.ContainsFunc(replies, answered))
	for i := range replies {
		replies[i].Err = h.explain(w, replies[i].Err)
	}
	return replies
}

// each is EachPipeliner.PipelineEach.
func (h *health) each(ctx context.Context, c EachPipeliner, cmds []Cmd, each func(i int, r Reply)) {
	if err := h.allow(ctx); err != nil {
		for i := range cmds {
			each(i, Reply{Err: err})
		}
		return
	}
	if h.step == 0 {
		c.PipelineEach(ctx, cmds, each)
		return
	}
	w := h.begin(ctx, false, &cmds[0])
	defer h.end(w, false)
	c.PipelineEach(w.ctx, cmds, func(i int, r Reply) {
		if answered(r) {
			h.heard()
		}
		r.Err = h.explain(w, r.Err)
		each(i, r)
	})
}

// subscribe is Subscriber.Subscribe.
func (h *health) subscribe(ctx context.Context, s Subscriber, channel string, sharded bool, on func(string, bool)) (stop func(), err error) {
	if err := h.allow(ctx); err != nil {
		return nil, err
	}
	if h.step == 0 {
		return s.Subscribe(ctx, channel, sharded, on)
	}
	w := h.begin(ctx, false, &Cmd{At: channel})
	stop, err = s.Subscribe(w.ctx, channel, sharded, on)
	h.end(w, err == nil)
	return stop, h.explain(w, err)
}

// answered reports whether a reply came from the server.
func answered(r Reply) bool {
	var se ServerError
	return r.Err == nil || errors.As(r.Err, &se)
}

// begin watches a call until end. The call must use the context of the result.
func (h *health) begin(ctx context.Context, blocking bool, cmd *Cmd) *watched {
	w := &watched{blocking: blocking}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	w.index = len(h.calls)
	h.calls = append(h.calls, w)
	if blocking {
		h.blocked++
	}
	if h.node != "" && cmd.At != "" {
		h.key = cmd.At
	} else if h.node != "" && len(cmd.Keys) > 0 {
		h.key = cmd.Keys[0]
	}
	if o := h.outage.Load(); o != nil { // it began after the call was allowed
		o.mu.Lock()
		w.cancel(o.err)
		o.mu.Unlock()
	}
	h.arm()
	return w
}

func (h *health) end(w *watched, answered bool) {
	if answered {
		h.heard()
	}
	w.cancel(nil)
	h.mu.Lock()
	last := h.calls[len(h.calls)-1]
	h.calls[w.index], last.index = last, w.index
	h.calls[len(h.calls)-1] = nil
	h.calls = h.calls[:len(h.calls)-1]
	if w.blocking {
		h.blocked--
	}
	h.mu.Unlock()
}

// heard notes a reply.
func (h *health) heard() {
	h.replies.Add(1)
	if h.outage.Load() == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent = 0
	h.outage.Store(nil)
	select {
	case <-h.gone:
		h.gone = make(chan struct{})
	default:
	}
}

// arm sets the timer for the next step. h.mu is held.
func (h *health) arm() {
	every := h.step
	if len(h.calls) == h.blocked && !h.asked {
		every *= blockedSteps
	}
	if h.every != 0 && h.every <= every {
		return
	}
	if h.every == 0 && h.silent == 0 {
		h.since, h.seen = time.Now(), h.replies.Load()
	}
	h.every = every
	if h.timer == nil {
		h.timer = time.AfterFunc(every, h.tick)
	} else {
		h.timer.Reset(every)
	}
}

// tick ends a step.
func (h *health) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	ask := false
	switch n := h.replies.Load(); {
	case n != h.seen:
		h.seen, h.silent, h.since = n, 0, time.Now()
	case h.every > h.step:
		ask = len(h.calls) > 0
	default:
		h.silent++
		ask = h.silent >= pingStep
	}
	h.every = 0
	if h.outage.Load() == nil {
		switch {
		case h.silent >= downSteps:
			h.fail()
		case ask && !h.asked:
			h.asked = true
			h.client.Go(h.ask)
		}
	}
	if len(h.calls) > 0 || h.asked {
		h.arm()
	}
}

// ask sends a PING. Close ends it: the caller would wait for a server that is silent.
func (h *health) ask() {
	ctx, cancel := context.WithTimeout(h.client.open, stepsPerDown*h.step)
	defer cancel()
	if h.ping(ctx) == nil {
		h.heard()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = false
}

// ping returns nil when the server has answered. The PING is flagged Blocking, so it has a connection of
// its own: long calls may use all others.
func (h *health) ping(ctx context.Context) error {
	h.mu.Lock()
	key := h.key
	h.mu.Unlock()
	r := h.conn.Do(ctx, Cmd{Name: "PING", At: key, Flags: ReadOnly | Blocking})
	if answered(r) {
		return nil
	}
	return r.Err
}

// fail begins an outage. h.mu is held.
func (h *health) fail() {
	down := &UnavailableError{Since: h.since, Node: h.node}
	o := &outage{
		err:     down,
		probing: true, known: make(chan struct{}), wanted: time.Now(),
	}
	o.told()
	h.outage.Store(o)
	h.client.Go(func() { h.probe(o) })
	for _, w := range h.calls {
		w.cancel(down) // o.err may be another already
	}
	time.AfterFunc(stepsPerDown*h.step/graceShare, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.outage.Load() == o {
			o.mu.Lock()
			h.was = o.err
			o.mu.Unlock()
			close(h.gone)
		}
	})
}

// why returns why the channel of over was closed.
func (h *health) why() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.was
}

// over returns a channel that is closed when the node is down and the callers of pipelines must stop
// waiting.
func (h *health) over() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gone
}

// A bounded is a Conn. Its calls end when health finds the server down, and the Client's Observer sees them.
type bounded struct{ *health }

var _ Conn = bounded{}

// Do runs one command.
func (b bounded) Do(ctx context.Context, cmd Cmd) Reply {
	if b.client.observer.OnCall == nil {
		return b.do(ctx, cmd)
	}
	ctx, end := b.client.begin(ctx, []Cmd{cmd}, b.node)
	r := b.do(ctx, cmd)
	end(r.Err)
	return r
}

// Pipeline runs several.
func (b bounded) Pipeline(ctx context.Context, cmds []Cmd) []Reply {
	if b.client.observer.OnCall == nil {
		return b.pipeline(ctx, cmds)
	}
	ctx, end := b.client.begin(ctx, cmds, b.node)
	replies := b.pipeline(ctx, cmds)
	end(firstError(replies))
	return replies
}
