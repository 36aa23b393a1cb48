package server

import (
	"bytes"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// In front of a pool a transaction is kept here until EXEC: only its keys tell which
// server it is for. Then MULTI, what was queued and EXEC leave as one, on the
// connection that all share, where nobody's command can come in between. WATCH leaves
// state on the server, so from WATCH to EXEC a client has a connection of its own.

// maxTransaction is how many bytes one may keep.
const maxTransaction = 16 << 20

// elementBytes is what a command of a transaction takes beside its bytes.
const elementBytes = 64

// A keptTransaction is what a client in front of a pool has queued.
type keptTransaction struct {
	body []byte // as on the wire
	at   home
}

// A home is the server of some keys, for as long as the servers are those that they were
// before it was chosen.
type home struct {
	node   *proxy.Node // nil: there has been no key yet
	pool   *proxy.Pool
	digest string // of its ring
	slot   uint16 // of the keys, in a cluster
}

// newHome is a home for keys that are yet to come.
func (c *pooled) newHome() home { return home{pool: c.pool, digest: c.pool.Digest()} }

// stands reports whether the client's keys have the servers that they had.
func (h *home) stands(c *pooled) bool { return h.pool == c.pool && h.digest == c.pool.Digest() }

// A watch is a connection on which keys are watched.
type watch struct {
	home

	conn *proxy.Exclusive
	ask  bool // its slot is on its way to the node
	lost bool // a slot has moved: what is watched counts as changed
}

// transact runs the commands that begin and end transactions.
func (c *pooled) transact(name string, k *keySpec, args [][]byte, raw []byte) {
	switch name {
	case "multi":
		if c.tx.active {
			c.fail("ERR MULTI calls can not be nested")
			return
		}
		c.beginTransaction()
		c.kept = keptTransaction{at: c.newHome()}
		if c.watched != nil && c.watched.stands(c) {
			c.kept.at = c.watched.home
		}
		c.ok()
	case "exec":
		c.exec()
	case "discard":
		if !c.tx.active {
			c.fail("ERR DISCARD without MULTI")
			return
		}
		c.takeTransaction()
		c.unwatch()
		c.ok()
	case "watch":
		c.watchKeys(k, args, raw)
	case "unwatch":
		if c.tx.active {
			c.queue(raw, nil)
			return
		}
		c.unwatch()
		c.ok()
	}
}

// transactional are the commands of transact.
var transactional = map[string]bool{"multi": true, "exec": true, "discard": true, "watch": true, "unwatch": true}

// queue keeps a command here until EXEC. Its keys have been looked at.
func (c *pooled) queue(raw []byte, change translate) {
	t := &c.kept
	switch {
	case c.tx.broken:
		c.reply(queued) // as Redis says, and nothing is kept
		return
	case len(t.body)+c.tx.answers+len(raw) > maxTransaction:
		c.reject("ERR redoubt: the commands of this transaction, and the answers to them that are known, have more than 16 MiB, which is what a pool keeps until EXEC")
		c.forgetQueue()
		return
	case !c.keptHeld.Hold(len(t.body) + c.tx.answers + len(raw) + elementBytes*len(c.tx.elements)):
		c.reject("ERR redoubt: " + errNoRoom.Error() + ": the command was not queued")
		c.forgetQueue()
		return
	}
	c.tx.elements = append(c.tx.elements, change)
	c.showQueued(len(raw))
	t.body = append(t.body, raw...)
	c.reply(queued)
}

// forgetQueue forgets what is queued, of a transaction that fails at EXEC.
func (c *pooled) forgetQueue() {
	c.kept.body, c.tx.elements = nil, nil
	c.keptHeld.Hold(0)
}

// takeTransaction ends the transaction.
func (c *pooled) takeTransaction() (transaction, keptTransaction) {
	tx, kept := c.endTransaction(), c.kept
	c.kept = keptTransaction{}
	c.keptHeld.Hold(0)
	return tx, kept
}

// settleOn makes node the server of the transaction, and reports false when it has
// another.
func (c *pooled) settleOn(name string, node *proxy.Node, key []byte) bool {
	t := &c.kept
	switch stands := t.at.stands(c); {
	case !stands && t.at.node != nil:
		return true // EXEC says that they have changed
	case !stands:
		t.at = c.newHome()
	}
	if t.at.node == nil {
		t.at.node, t.at.slot = node, c.slotOf(key)
	}
	if c.slots != nil && t.at.slot != c.slotOf(key) {
		c.reject("CROSSSLOT redoubt: the keys of " + name + " have another slot of the cluster than those of the transaction before" + c.target.tagHint())
		return false
	}
	if c.slots == nil && t.at.node != node {
		c.reject("ERR redoubt: the keys of " + name + " belong to another server of the pool than those of the transaction before" + c.target.tagHint())
		return false
	}
	return true
}

// queueKeyed queues a command of Redis in a transaction.
func (c *pooled) queueKeyed(k *keySpec, args [][]byte, raw []byte) {
	name := strings.ToUpper(k.name)
	if k.name == "select" {
		if n, ok := resp.ParseInt(args[1]); ok && n == int64(c.target.database()) {
			c.queueAnswer(okRaw)
			return
		}
	}
	if k.name == "time" {
		c.queue(raw, nil)
		return
	}
	at, ok := k.positions(c.positions[:0], args)
	c.positions = at
	c.asksAll(at, args)
	switch {
	case !ok || len(at) == 0 || notInPools[k.name]:
		c.refuseQueued(name)
	case c.scriptOfMany(k, at):
		c.reject("ERR redoubt: " + name + " " + manyNeedTag)
	default:
		node := c.nodeOf(name, at, args)
		if node != nil && c.settleOn(name, node, args[at[0]]) {
			c.queue(raw, nil)
		}
	}
}

const execMoved = "EXECABORT Transaction discarded because of: redoubt: the servers of the pool have changed"

func (c *pooled) exec() {
	if !c.tx.active {
		c.fail("ERR EXEC without MULTI")
		return
	}
	tx, kept := c.takeTransaction()
	w := c.watched
	switch {
	case tx.broken:
		c.unwatch()
		c.fail(execAbort)
	case w != nil && (w.lost || !w.stands(c)):
		// Somebody may have changed the keys where they are now.
		c.unwatch()
		c.scratch = resp.AppendNullArray(c.scratch[:0], c.protocol)
		c.reply(c.scratch)
	case kept.at.node != nil && !kept.at.stands(c):
		c.fail(execMoved)
	case w == nil && len(tx.elements) == 0:
		c.reply([]byte("*0\r\n"))
	default:
		c.carryOut(w, tx, kept)
	}
}

// carryOut sends a transaction and hands on the reply to its EXEC.
func (c *pooled) carryOut(w *watch, tx transaction, kept keptTransaction) {
	n := len(tx.elements) + 2
	if len(kept.body) > maxRead {
		c.stepAside() // it will be copied
	}
	raw := slices.Concat(multiRaw, kept.body, execRaw)
	c.as(Passed)
	if w != nil {
		c.carryOutWatched(w, tx, n, raw)
		return
	}
	node := kept.at.node
	if node != nil && c.slots != nil {
		node = c.slots.Of(kept.at.slot) // it may have moved since
	}
	if node != nil && !c.chooseNode(nil, node) || node == nil && !c.chooseAny() {
		return
	}
	e := &execution{out: &c.out, elements: tx.elements, last: uint64(n - 1), tag: c.prepare(slot{})} //nolint:gosec // positive
	b := batch{to: e, n: n, commands: raw, whole: true}
	if err := c.send(e.tag, c.wholeGoesApart(&b), &b); err != nil {
		c.sender.unreachable(e.tag, err)
	}
}

// carryOutWatched is carryOut on the connection on which keys are watched.
func (c *pooled) carryOutWatched(w *watch, tx transaction, n int, raw []byte) {
	if !c.settle() { // what came before must have run before
		return
	}
	if w.ask {
		w.conn.Asking()
	}
	replies, err := c.ask(w.conn, n, raw)
	e := &execution{out: &c.out, elements: tx.elements, last: uint64(n - 1), tag: c.prepare(slot{})} //nolint:gosec // positive
	if err != nil {
		c.endWatch()
		e.Reply(e.last, unasked(w.node, replies, err))
		return
	}
	c.watched = nil
	c.srv.stats.dedicated.Add(-1)
	w.conn.Return()
	var scanner resp.ReplyScanner
	moved := false
	for i := range n {
		end, _ := scanner.Next(replies) // they are whole
		moved = moved || w.node.Redirects(replies[:end])
		if moved && i == n-1 && replies[0] == '-' { // what is watched is elsewhere: somebody may have changed it
			e.Reply(uint64(i), resp.AppendNullArray(nil, c.protocol)) //nolint:gosec // positive
			return
		}
		e.Reply(uint64(i), replies[:end]) //nolint:gosec // positive
		replies = replies[end:]
	}
}

var (
	multiRaw   = resp.AppendCommand(nil, "MULTI")
	execRaw    = resp.AppendCommand(nil, "EXEC")
	unwatchRaw = resp.AppendCommand(nil, "UNWATCH")
)

// An execution is the ReplyHandler of MULTI, of what was queued, and of EXEC, whose reply is
// the client's.
type execution struct {
	out      *output
	tag      uint64
	last     uint64 // the number of EXEC
	elements []translate
	refused  []byte // the first error before EXEC
}

// Reply implements proxy.ReplyHandler.
func (e *execution) Reply(i uint64, raw []byte) bool {
	if i == 0 {
		e.refused = nil // all of it may come once more, from another node
	}
	if i < e.last {
		if raw[0] == '-' && e.refused == nil {
			e.refused = bytes.Clone(raw)
		}
		return false
	}
	return e.out.Reply(e.tag, e.result(raw))
}

// Count implements proxy.Counted.
func (e *execution) Count(n int) bool { return e.out.Count(n) }

// Flush implements proxy.ReplyHandler.
func (e *execution) Flush() { e.out.Flush() }

// Client is that of [output].
func (e *execution) Client() string { return e.out.Client() }

// result is what the client gets for the reply to EXEC. The errors of what was queued
// have not been told yet.
func (e *execution) result(raw []byte) []byte {
	if raw[0] == '-' {
		if e.refused != nil && bytes.HasPrefix(raw, []byte("-EXECABORT")) {
			return append([]byte("-EXECABORT Transaction discarded because of: "), e.refused[1:]...)
		}
		if e.refused != nil && bytes.HasPrefix(raw, []byte("-ERR EXEC without MULTI")) {
			return append([]byte("-ERR redoubt: the server took no MULTI, and what came behind it may have run: "), e.refused[1:]...)
		}
		return raw
	}
	for _, change := range e.elements {
		if change != nil {
			return changeElements(nil, raw, e.elements)
		}
	}
	return raw
}

// watchKeys watches keys on a connection of the client's own.
func (c *pooled) watchKeys(k *keySpec, args [][]byte, raw []byte) {
	if c.tx.active {
		c.fail("ERR WATCH inside MULTI is not allowed")
		return
	}
	h := c.newHome()
	at, _ := k.positions(c.positions[:0], args)
	c.positions = at
	node := c.nodeOf("WATCH", at, args)
	if node == nil {
		return
	}
	h.node, h.slot = node, c.slotOf(args[at[0]])
	w := c.watched
	switch {
	case w != nil && (w.lost || !w.stands(c)):
		c.ok() // what is watched counts as changed already, whatever else is
		return
	case w != nil && c.slots != nil && w.slot != h.slot:
		c.severalServers("WATCH, and those that are watched already,")
		return
	case w != nil && c.slots == nil && w.node != node:
		c.fail("ERR redoubt: these keys belong to another server of the pool than those that are watched already" + c.target.tagHint())
		return
	}
	if !c.quiesce() { // what came before must have run before
		return
	}
	if c.watched == nil {
		x, ok := c.borrow(node)
		if !ok {
			return
		}
		c.watched = &watch{home: h, conn: x}
	}
	c.as(Passed)
	reply, err := c.ask(c.watched.conn, 1, raw)
	if c.slots != nil && w == nil && err == nil {
		reply, err = c.watchElsewhere(raw, reply)
	} else if err == nil && c.watched.node.Redirects(reply) {
		c.watched.lost = true
		reply = okRaw
	}
	if err != nil {
		c.endWatch()
		reply = unasked(node, reply, err)
	}
	c.reply(reply)
}

// unwatch gives the connection on which keys are watched back.
func (c *pooled) unwatch() {
	w := c.watched
	if w == nil {
		return
	}
	if reply, err := c.ask(w.conn, 1, unwatchRaw); err != nil || !bytes.Equal(reply, okRaw) {
		c.endWatch()
		return
	}
	c.watched = nil
	c.srv.stats.dedicated.Add(-1)
	w.conn.Return()
}

// endWatch closes it instead.
func (c *pooled) endWatch() {
	if c.watched != nil {
		c.watched.conn.Close()
		c.watched = nil
		c.srv.stats.dedicated.Add(-1)
	}
}
