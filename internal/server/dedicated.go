package server

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/rediscmd"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A dedicated is a connection of the client's own to the back end, and the state that it has
// there: a transaction, watched keys, another database, subscriptions. It carries all commands of
// the client until RESET.
type dedicated struct {
	*direct // whose route it stands in for

	conn     *proxy.Dedicated
	scripted uint64 // no reply yet to the script with tag scripted-1
	span     struct {
		from, to int
		tag      uint64
		n        int
	}
	passed    bool // a command was sent
	elsewhere bool // another database than the back end's own is selected; settle before reading it
	loggedIn  bool // the client is a user of the back end

	tracked atomic.Pointer[tracked] // nil: CLIENT TRACKING is off; settle before reading it
	closed  atomic.Bool             // on purpose
	fault   error                   // what is handed to the output now; of the goroutine that reads; nil: a reply
	hanging atomic.Bool             // a command that waits on the back end is to be ended: see hangUp
}

// run lets the engine count what is answered here, like inprocess.
func (d *dedicated) run(h *handler, args [][]byte, raw []byte) {
	queues, failures := d.tx.active, d.failures
	d.passed = false
	d.direct.run(h, args, raw)
	if h != nil && d.counter != nil && !d.passed && !queues && !d.tx.active {
		d.counter.Answered(h.fullName(args), d.failures > failures)
	}
}

func (d *dedicated) dispatch(args [][]byte, raw []byte) {
	h := d.srv.lookup(args[0])
	if h != nil || !d.plain() || !d.rights.permitPlain(&d.known, args) {
		d.special(h, args, raw)
		return
	}
	d.commands[Passed]++
	if d.from != d.span.to { // a blank line lies between
		d.sendSpan()
	}
	if d.span.n == 0 {
		if d.scripted != 0 && !d.settleScript() {
			return
		}
		d.span.from, d.span.tag = d.from, d.next
	}
	d.span.to = d.from + len(raw)
	d.span.n++
	d.next++
}

func (d *dedicated) sendSpan() {
	if d.span.n == 0 {
		return
	}
	n := d.span.n
	d.span.n = 0
	if err := d.conn.Send(d.span.tag, n, d.buf[d.span.from:d.span.to]); err != nil {
		for i := range n {
			d.unreachable(d.span.tag+uint64(i), d.target.name(), err) //nolint:gosec // positive
		}
	}
}

func (d *dedicated) endTurn() int {
	d.sendSpan()
	return 0
}

func (d *dedicated) flush() {
	d.sendSpan()
	d.conn.Flush()
}

func (d *dedicated) forward(raw []byte, change translate) {
	if d.tx.active {
		d.queue(raw, change)
		return
	}
	d.forwardExpecting(raw, change, proxy.Expect{})
}

// forwardExpecting is forward for a command that sends back something special.
func (d *dedicated) forwardExpecting(raw []byte, change translate, e proxy.Expect) {
	if !d.settleScript() {
		return
	}
	t := d.prepare(slot{change: change})
	d.sent(t, d.conn.SendExpecting(t, e, raw))
}

// forwardBlocking is forward for a command that may wait, for one of keys if any are given.
func (d *dedicated) forwardBlocking(raw []byte, keys ...[]byte) {
	if d.tx.active { // in which it doesn't wait
		d.forward(raw, nil)
		return
	}
	if !d.settleScript() {
		return
	}
	d.waitFor(keys)
	d.belongs(unmeasured, func() {
		t := d.prepare(slot{change: d.orHangUp, blocks: true})
		d.sent(t, d.conn.SendBlocking(t, raw))
	})
}

// sent answers a command that could not be sent, untranslated.
func (d *dedicated) sent(tag uint64, err error) {
	d.passed = true
	if err != nil {
		d.out.prepare(tag, slot{mute: d.muted})
		d.unreachable(tag, d.target.name(), err)
	}
}

func (d *dedicated) script(_ *handler, _ [][]byte, p command.Plan) {
	d.as(Rewritten)
	if d.tx.active {
		d.queueScript(p)
		return
	}
	if !d.settleScript() {
		return
	}
	t := d.prepareScript(p)
	d.scripted = t + 1
	d.sent(t, d.conn.SendScript(t, p.Cmd))
}

// settleScript waits for the reply to a script. Were it missing and sent again, it would come
// behind what is sent now, and might end up inside a transaction.
func (d *dedicated) settleScript() bool {
	last := d.scripted
	d.scripted = 0
	return last == 0 || d.awaitReplies(last)
}

// queue sends a command that the back end is to queue, or keeps an answer made here.
func (d *dedicated) queue(raw []byte, change translate) {
	switch {
	case d.tx.broken: // EXEC fails and needs no elements
	case raw == nil && !d.holdQueued(0):
		return
	default:
		d.tx.elements = append(d.tx.elements, element{change, raw == nil})
	}
	d.showQueued(len(raw))
	if raw == nil {
		d.reply(queued)
		return
	}
	var direct translate
	if change != nil {
		// Should MULTI itself have failed, the command ran at once.
		direct = func(dst, raw []byte) []byte {
			if bytes.Equal(raw, queued) || len(raw) > 0 && raw[0] == '-' {
				return append(dst, raw...)
			}
			return change(dst, raw)
		}
	}
	d.forwardExpecting(raw, direct, proxy.Expect{})
}

// carries sends PING and ECHO on: the answer depends on the connection's state.
func (d *dedicated) carries(_ *handler, raw []byte) bool {
	d.as(Passed)
	d.forward(raw, nil)
	return true
}

func (d *dedicated) client(sub string, args [][]byte, raw []byte) bool {
	switch {
	case sub == "getredir", sub == "trackinginfo":
		d.forward(raw, d.ownRedirect)
	case d.loggedIn && (sub == "pause" || sub == "unpause"):
		d.forward(raw, nil)
	default:
		return d.self.client(sub, args, raw)
	}
	return true
}

// hello answers HELLO once the connection speaks the protocol. ok is false when the back end
// refused, as it does in RESP2 while there are subscriptions.
func (d *dedicated) hello(p resp.Protocol, who []any) (answered, ok bool) {
	raw := resp.AppendCommand(nil, "HELLO", strconv.Itoa(int(p)))
	d.forwardExpecting(raw, func(dst, raw []byte) []byte {
		if raw[0] == '-' {
			return append(dst, raw...)
		}
		ok = true
		return appendHello(dst, p, d.id, who)
	}, proxy.Expect{Protocol: p})
	return true, d.settle() && ok
}

func (d *dedicated) setProtocol(p resp.Protocol) error { return d.self.setProtocol(p) }

func (d *dedicated) abandon(text string) {
	raw := resp.AppendCommand(nil, "UNWATCH")
	if d.endTransaction().active {
		raw = resp.AppendCommand(nil, "DISCARD") // which unwatches too
	}
	d.forwardExpecting(raw, func(dst, _ []byte) []byte { return resp.AppendError(dst, text) }, proxy.Expect{})
}

// reset closes the connection, and with it all state.
func (d *dedicated) reset() { d.end() }

func (d *dedicated) end() {
	d.closed.Store(true)
	d.conn.Close()
	<-d.conn.Done()
	d.own.Store(nil)
	d.tracked.Swap(nil).release()
	d.carrier = d.self
	d.info.change(func(a *clientInfo) { a.readonly, a.watches, a.behind = false, false, "" })
	d.srv.stats.dedicated.Add(-1)
}

func (d *dedicated) cannotWait() string {
	switch {
	case d.loggedIn:
		return "ERR redoubt: this waits on connections of Redoubt's own, not with the rights of a user of the back end: leave out BLOCK if you gave it"
	case d.elsewhere:
		return "ERR redoubt: this works in the back end's own database only: SELECT it, or leave out BLOCK if you gave it"
	}
	return ""
}

func (d *dedicated) occupies() bool { return true }

func (d *dedicated) watchesKeys() bool { return d.info.get().watches }

// hangUp ends what the client waits for on the back end, when the server ends or the client is gone. Like Redis, it
// closes the client without a reply; but what the command has taken already is told. Other
// commands have their replies.
func (d *dedicated) hangUp(deadline time.Time) {
	o := &d.out
	written := func() bool { return len(o.buf) == 0 && !o.writing }
	over := func() bool { return o.head.Load() == d.next && written() }
	if !o.await(deadline, func() bool { return over() || o.slot(o.head.Load()).blocks && written() }) {
		return
	}
	d.hanging.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	if u, err := d.target.upstream(d.protocol); err == nil {
		asking.Go(func() { d.conn.Unblock(ctx, u) })
	}
	o.await(deadline, func() bool { return over() || o.hungUp && written() })
	cancel()
	asking.Wait()
}

// orHangUp is the reply to a command that has waited, unless [dedicated.hangUp] has ended that.
func (d *dedicated) orHangUp(dst, raw []byte) []byte {
	if d.hanging.Load() && (bytes.HasPrefix(raw, unblockedCode) || errors.Is(d.fault, redoubt.ErrUnknownOutcome)) {
		d.out.hungUp = true // mu is held
		return dst
	}
	return append(dst, raw...)
}

// Reply implements proxy.Listener.
func (d *dedicated) Reply(tag uint64, raw []byte) bool { return d.out.Reply(tag, raw) }

// Fail implements proxy.Failer.
func (d *dedicated) Fail(tag uint64, f *proxy.Fault) bool {
	d.fault = f
	defer func() { d.fault = nil }()
	return d.out.Reply(tag, f.Reply())
}

// Count implements proxy.Counted.
func (d *dedicated) Count(n int) bool { return d.out.Count(n) }

// Account implements proxy.Accountant.
func (d *dedicated) Account() (hold func(bytes int) bool) { return d.account() }

// Flush implements proxy.Listener.
func (d *dedicated) Flush() { d.out.Flush() }

// Push implements proxy.Listener.
func (d *dedicated) Push(raw []byte) bool {
	if bytes.HasPrefix(raw, redirBroken) {
		raw = d.withOwnID(raw)
	}
	return d.out.Push(raw)
}

// Gone implements proxy.Listener. The state that the connection held is lost, so the client is
// closed, once it has the replies to what was in flight.
func (d *dedicated) Gone(err error) {
	if !d.closed.Load() {
		d.lostConnection(err)
	}
}

// The commands below exist in front of a server and of an engine, and not in front of a pool.

// onOwn is the handler of a command that needs a connection of the client's own.
func onOwn(run func(d *dedicated, args [][]byte, raw []byte)) func(c *session, args [][]byte, raw []byte) {
	return func(c *session, args [][]byte, raw []byte) {
		c.as(Passed)
		if d := directOf(c).dedicate(); d != nil {
			run(d, args, raw)
		}
	}
}

func (t *backendTarget) addHandlers(add func(h handler, names ...string)) {
	occupy := func(d *dedicated, _ [][]byte, raw []byte) { d.forward(raw, nil) }
	block := func(d *dedicated, args [][]byte, raw []byte) { d.forwardBlocking(raw, args[1:]...) }
	add(handler{run: selectDatabase, checked: true}, "select")
	add(handler{run: onOwn((*dedicated).multi), checked: true}, "multi")
	add(handler{run: exec, checked: true}, "exec")
	add(handler{run: discard, checked: true}, "discard")
	add(handler{run: onOwn((*dedicated).watch)}, "watch")
	add(handler{run: onOwn(occupy)}, "debug", "asking")
	add(handler{run: onOwn((*dedicated).readOnly)}, "readonly", "readwrite")
	for _, r := range rediscmd.All() {
		if r.Has(rediscmd.Blocking) {
			add(handler{run: onOwn(block)}, r.Name)
		}
	}
	add(handler{run: readStream}, "xread", "xreadgroup") // which block only if told to
	add(handler{run: onOwn((*dedicated).wait)}, "wait", "waitaof")
	add(handler{run: scriptOrFunction}, "script", "function")
	add(handler{run: outsideTransaction(subscribe(proxy.Channels))}, "subscribe", "unsubscribe")
	add(handler{run: outsideTransaction(subscribe(proxy.Patterns))}, "psubscribe", "punsubscribe")
	add(handler{run: outsideTransaction(subscribe(proxy.Shards))}, "ssubscribe", "sunsubscribe")
	add(handler{run: outsideTransaction((*dedicated).monitor), checked: true}, "monitor")
	add(handler{run: replicate, checked: true}, "sync", "psync", "replconf")
}

// outsideTransaction is onOwn for a command that a transaction can't have.
func outsideTransaction(run func(d *dedicated, args [][]byte, raw []byte)) func(c *session, args [][]byte, raw []byte) {
	own := onOwn(run)
	return func(c *session, args [][]byte, raw []byte) {
		if c.tx.active {
			c.as(Passed)
			c.refuseQueued(string(bytes.ToUpper(args[0])))
			return
		}
		own(c, args, raw)
	}
}

// selectDatabase answers for the database that everybody uses, and moves the client for another
// one.
func selectDatabase(c *session, args [][]byte, raw []byte) {
	n, ok := resp.ParseInt(args[1])
	home := int64(c.srv.target.database())
	if directOf(c).own.Load() == nil && ok && n == home {
		c.ok()
		return
	}
	c.as(Passed)
	if !ok {
		c.carrier.forward(raw, nil) // which changes nothing; the back end says why
		return
	}
	d := directOf(c).dedicate()
	if d == nil {
		return
	}
	// It counts once it was done, which for a transaction is at EXEC.
	d.forward(raw, func(dst, raw []byte) []byte {
		if bytes.Equal(raw, okRaw) {
			d.elsewhere = n != home
			d.info.change(func(a *clientInfo) { a.database = int(n) })
		}
		return append(dst, raw...)
	})
}

func (d *dedicated) multi(_ [][]byte, raw []byte) {
	nested := d.tx.active
	d.forwardExpecting(raw, nil, proxy.Expect{})
	if !nested {
		d.beginTransaction()
	}
}

func exec(c *session, _ [][]byte, raw []byte) {
	c.as(Passed)
	if !c.tx.active {
		c.carrier.forward(raw, nil) // the back end says what is wrong
		return
	}
	d := directOf(c).dedicate() // it has been since MULTI
	tx := c.endTransaction()
	c.info.unwatched()
	if tx.broken || tx.user != c.rights.account.user() { // it may have lost the right to what is queued
		if c.counter != nil {
			c.counter.CountError(execAbort)
			c.counter.Answered("exec", true)
		}
		d.forwardExpecting(resp.AppendCommand(nil, "DISCARD"), func(dst, raw []byte) []byte {
			if len(raw) > 0 && raw[0] == '-' && !bytes.HasPrefix(raw, []byte("-ERR DISCARD without MULTI")) {
				return append(dst, raw...)
			}
			return resp.AppendError(dst, execAbort)
		}, proxy.Expect{})
		return
	}
	d.forwardExpecting(raw, tx.changed(), proxy.Expect{})
	finishLogins(c, tx.logins)
}

func discard(c *session, _ [][]byte, raw []byte) {
	c.as(Passed)
	c.endTransaction()
	c.info.unwatched()
	c.carrier.forward(raw, nil)
}

// unwatched follows what ends a transaction on the back end, and the watch of keys with it.
func (s *sharedInfo) unwatched() {
	if s.get().watches {
		s.change(func(a *clientInfo) { a.watches = false })
	}
}

// watch, like EXEC, DISCARD and MULTI, is never queued.
func (d *dedicated) watch(_ [][]byte, raw []byte) {
	d.info.change(func(a *clientInfo) { a.watches = true })
	if !d.tx.active {
		_ = d.conn.AskID() // a failure to send shows in the next line
	}
	d.forwardExpecting(raw, nil, proxy.Expect{})
}

func (d *dedicated) readOnly(args [][]byte, raw []byte) {
	on := bytes.EqualFold(args[0], []byte("READONLY"))
	d.forward(raw, func(dst, raw []byte) []byte {
		if bytes.Equal(raw, okRaw) {
			d.info.change(func(a *clientInfo) { a.readonly = on })
		}
		return append(dst, raw...)
	})
}

// readStream is for XREAD and XREADGROUP, which wait when they have BLOCK before STREAMS.
func readStream(c *session, args [][]byte, raw []byte) {
	c.as(Passed)
	if !blocks(args[1:]) {
		c.carrier.forward(raw, nil)
	} else if d := directOf(c).dedicate(); d != nil {
		d.forwardBlocking(raw)
	}
}

// blocks reads options as the back end does: what stands behind GROUP and
// COUNT is no option, whatever it looks like.
func blocks(options [][]byte) bool {
	for i := 0; i < len(options); i++ {
		switch o := options[i]; {
		case bytes.EqualFold(o, []byte("BLOCK")):
			return true
		case bytes.EqualFold(o, []byte("STREAMS")):
			return false
		case bytes.EqualFold(o, []byte("GROUP")):
			i += 2
		case bytes.EqualFold(o, []byte("COUNT")):
			i++
		}
	}
	return false
}

// reachesReplicas is a message to nobody.
var reachesReplicas = resp.AppendCommand(nil, "PUBLISH", "redoubt:wait", "")

// wait is for WAIT and WAITAOF, which wait until replicas have the writes of the same
// connection. The client's earlier writes went over another connection. So a command that
// the server passes to its replicas comes first. Since Redis 7.2 no other command will do.
func (d *dedicated) wait(_ [][]byte, raw []byte) {
	if !d.tx.active {
		// A failure to send shows in the next line.
		_ = d.conn.SendSilently(proxy.Expect{Vital: true}, reachesReplicas)
	}
	d.forwardBlocking(raw)
}

func scriptOrFunction(c *session, args [][]byte, raw []byte) {
	switch {
	case len(args) > 1 && bytes.EqualFold(args[1], []byte("KILL")):
		c.as(Passed)
		if directOf(c).own.Load() == nil {
			directOf(c).killScript(raw)
			return
		}
		c.carrier.forward(raw, nil)
	case len(args) > 1 && bytes.EqualFold(args[1], []byte("DEBUG")):
		c.reject("ERR redoubt: SCRIPT DEBUG is not supported through redoubt: connect to the back end itself")
	default:
		c.as(Passed)
		c.carrier.forward(raw, nil)
	}
}

// killScript ends a script. The shared connection may be the one that waits for
// it, and the back end answers BUSY to almost everything else, so that a
// connection for this client could not be prepared.
func (r *direct) killScript(raw []byte) {
	if !r.catchUp() {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, proxy.DefaultDialTimeout)
	defer cancel()
	reply, err := proxy.AskOnce(ctx, r.target.backend, raw)
	refused, failed := reply.(resp.Error)
	switch {
	case err != nil:
		r.refused(err)
	case failed:
		r.fail(string(refused))
	default:
		r.ok()
	}
}

// subscribe is for commands that are confirmed once for each channel.
func subscribe(family proxy.Subscription) func(d *dedicated, args [][]byte, raw []byte) {
	return func(d *dedicated, args [][]byte, raw []byte) {
		// In RESP2 too, confirmations come even when CLIENT REPLY is OFF.
		d.forwardExpecting(raw, nil, proxy.Expect{Subscription: family, Channels: len(args) - 1})
	}
}

func (d *dedicated) monitor(_ [][]byte, raw []byte) {
	d.forwardExpecting(raw, nil, proxy.Expect{Monitor: true})
}

// logIn makes the client a user of the back end, on its own connection, until RESET.
//
// Rejected: this where Redoubt has a password or users. A back end whose default user needs no
// password takes any, and would so let everybody in here.
func (r *direct) logIn(credentials [][]byte) bool {
	had := r.own.Load() != nil
	d := r.dedicate()
	if d == nil {
		return false
	}
	ok := false
	d.forwardExpecting(resp.AppendCommand(nil, append([][]byte{[]byte("AUTH")}, credentials...)...), func(dst, raw []byte) []byte {
		if ok = bytes.Equal(raw, okRaw); ok {
			return dst
		}
		return append(dst, raw...)
	}, proxy.Expect{})
	switch {
	case !d.settle():
		return false
	case ok:
		d.loggedIn = true
		d.info.change(func(a *clientInfo) {
			if a.behind = "default"; len(credentials) == 2 {
				a.behind = string(credentials[0])
			}
		})
		return true
	}
	d.srv.stats.authFailures.Add(1)
	if !had {
		d.end()
	}
	return false
}
