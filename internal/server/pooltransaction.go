package server

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A poolTransaction is the transaction of a client in front of a pool, and the keys that the client
// watches.
//
// It keeps the commands until EXEC, because only their keys tell the server. Then MULTI, the queued
// commands and EXEC leave together on the shared connection, so no other client's command comes in
// between. WATCH leaves state on the server. So from WATCH to EXEC the client has a connection of its
// own.
type poolTransaction struct {
	c       *pooled
	kept    keptTransaction
	watched *watch // nil: no key is watched
}

// A keptTransaction is the commands that a client has queued, and their server.
type keptTransaction struct {
	body []byte // as on the wire
	at   home
}

// A home is the server of some keys. It stands until the servers of the pool change.
type home struct {
	node   *proxy.Node // nil: there has been no key yet
	pool   *proxy.Pool
	digest string // of its ring
	slot   uint16 // of the keys, in a cluster
}

// newHome returns a home without keys.
func (p topology) newHome() home { return home{pool: p.pool, digest: p.pool.Digest()} }

// stands reports whether all keys still have the servers that they had.
func (h *home) stands(now topology) bool { return h.pool == now.pool && h.digest == now.pool.Digest() }

// A watch is a connection on which keys are watched.
type watch struct {
	home

	conn *proxy.Exclusive
	ask  bool // its slot is on its way to the node
	lost bool // a slot has moved: what is watched counts as changed
}

// run runs the commands that begin and end transactions.
func (t *poolTransaction) run(name string, k *keySpec, args [][]byte, raw []byte) {
	c := t.c
	switch name {
	case "multi":
		if c.tx.active {
			c.fail("ERR MULTI calls can not be nested")
			return
		}
		c.beginTransaction()
		t.kept = keptTransaction{at: c.newHome()}
		if t.watched != nil && t.watched.stands(c.topology) {
			t.kept.at = t.watched.home
		}
		c.ok()
	case "exec":
		t.exec()
	case "discard":
		if !c.tx.active {
			c.fail("ERR DISCARD without MULTI")
			return
		}
		t.take()
		t.unwatch()
		c.ok()
	case "watch":
		t.watchKeys(k, args, raw)
	case "unwatch":
		if c.tx.active {
			t.queue(raw, nil)
			return
		}
		t.unwatch()
		c.ok()
	}
}

// transactional are the commands that [poolTransaction.run] runs.
var transactional = map[string]bool{"multi": true, "exec": true, "discard": true, "watch": true, "unwatch": true}

// queue keeps a command until EXEC. The caller has checked its keys.
func (t *poolTransaction) queue(raw []byte, change translate) {
	c := t.c
	kept := &t.kept
	switch {
	case c.tx.broken:
		c.reply(queued) // as Redis says, and nothing is kept
		return
	case !c.holdQueued(len(kept.body) + len(raw)):
		kept.body = nil
		return
	}
	c.tx.elements = append(c.tx.elements, element{change, raw == nil})
	c.showQueued(len(raw))
	kept.body = append(kept.body, raw...)
	c.reply(queued)
}

// forget drops the queued commands of a transaction that fails at EXEC.
func (t *poolTransaction) forget() {
	t.kept.body = nil
	t.c.dropQueued()
}

// take ends the transaction and returns it.
func (t *poolTransaction) take() (transaction, keptTransaction) {
	c := t.c
	tx, kept := c.endTransaction(), t.kept
	t.kept = keptTransaction{}
	return tx, kept
}

// settleOn makes node the server of the transaction. It reports false, and answers the command with an
// error, when the transaction has another server.
func (t *poolTransaction) settleOn(name string, node *proxy.Node, key []byte) bool {
	c := t.c
	kept := &t.kept
	switch stands := kept.at.stands(c.topology); {
	case !stands && kept.at.node != nil:
		return true // EXEC says that they have changed
	case !stands:
		kept.at = c.newHome()
	}
	if kept.at.node == nil {
		kept.at.node, kept.at.slot = node, c.slotOf(key)
	}
	if c.slots != nil && kept.at.slot != c.slotOf(key) {
		c.reject("CROSSSLOT redoubt: the keys of " + name + " have another slot of the cluster than the earlier keys of the transaction" + c.target.tagHint())
		return false
	}
	if c.slots == nil && kept.at.node != node {
		c.reject("ERR redoubt: the keys of " + name + " belong to another server of the pool than the earlier keys of the transaction" + c.target.tagHint())
		return false
	}
	return true
}

// queueKeyed queues a command of Redis in a transaction.
func (t *poolTransaction) queueKeyed(k *keySpec, args [][]byte, raw []byte) {
	c := t.c
	name := strings.ToUpper(k.name)
	if k.name == "select" {
		if n, ok := resp.ParseInt(args[1]); ok && n == int64(c.target.database()) {
			c.queueAnswer(okRaw)
			return
		}
	}
	if k.name == "time" {
		t.queue(raw, nil)
		return
	}
	at, ok := k.positions(c.positions[:0], args)
	c.positions = at
	c.asked.addAll(at, args)
	switch {
	case !ok || len(at) == 0 || notInPools[k.name]:
		c.refuseQueued(name)
	case c.scriptOfMany(k, at):
		c.reject("ERR redoubt: " + name + " " + manyNeedTag)
	default:
		node := c.nodeOf(name, at, args)
		if node != nil && t.settleOn(name, node, args[at[0]]) {
			t.queue(raw, nil)
		}
	}
}

const execMoved = "EXECABORT Transaction discarded because of: redoubt: the servers of the pool have changed"

func (t *poolTransaction) exec() {
	c := t.c
	if !c.tx.active {
		c.fail("ERR EXEC without MULTI")
		return
	}
	tx, kept := t.take()
	w := t.watched
	switch {
	case tx.broken:
		t.unwatch()
		c.fail(execAbort)
	case w != nil && (w.lost || !w.stands(c.topology)):
		// Somebody may have changed the keys where they are now.
		t.unwatch()
		c.scratch = resp.AppendNullArray(c.scratch[:0], c.protocol)
		c.reply(c.scratch)
	case kept.at.node != nil && !kept.at.stands(c.topology):
		c.fail(execMoved)
	case w == nil && len(tx.elements) == 0:
		c.reply([]byte("*0\r\n"))
	default:
		t.send(w, tx, kept)
	}
}

// send sends a transaction. The client gets the reply to its EXEC.
func (t *poolTransaction) send(w *watch, tx transaction, kept keptTransaction) {
	c := t.c
	n := remote(tx.elements) + 2
	if len(kept.body) > maxRead {
		c.yieldLead() // it will be copied
	}
	raw := slices.Concat(multiRaw, kept.body, execRaw)
	c.as(Passed)
	if w != nil {
		t.sendWatched(w, tx, n, raw)
		return
	}
	node := kept.at.node
	if node != nil && c.slots != nil {
		node = c.slots.Of(kept.at.slot) // it may have moved since
	}
	if node != nil && !c.chooseNode(nil, node) || node == nil && !c.chooseAny() {
		return
	}
	e := &execution{out: &c.out, change: tx.changed(), last: uint64(n - 1), tag: c.prepare(slot{})} //nolint:gosec // positive
	b := batch{to: e, n: n, commands: raw, whole: true}
	if err := c.send(e.tag, c.isolatesTransaction(&b), &b); err != nil {
		c.sender.unreachable(e.tag, err)
	}
}

// sendWatched is send on the connection on which keys are watched.
func (t *poolTransaction) sendWatched(w *watch, tx transaction, n int, raw []byte) {
	c := t.c
	if !c.settle() { // what came before must have run before
		return
	}
	if w.ask {
		w.conn.Asking()
	}
	replies, err := c.ask(w.conn, n, raw)
	e := &execution{out: &c.out, change: tx.changed(), last: uint64(n - 1), tag: c.prepare(slot{})} //nolint:gosec // positive
	if err != nil {
		t.endWatch()
		e.Reply(e.last, unasked(w.node, replies, err))
		return
	}
	t.watched = nil
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

// An execution is the ReplyHandler of MULTI, the queued commands and EXEC. The client gets the reply
// to EXEC.
type execution struct {
	out     *output
	tag     uint64
	last    uint64    // the number of EXEC
	change  translate // of the reply to EXEC; nil: it goes through as it is
	refused []byte    // the first error before EXEC
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

// result makes the client's reply from the reply to EXEC. It names the error of a queued command: the
// client got QUEUED for that one.
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
	if e.change != nil {
		return e.change(nil, raw)
	}
	return raw
}

// watchKeys watches keys, on a connection of the client's own.
func (t *poolTransaction) watchKeys(k *keySpec, args [][]byte, raw []byte) {
	c := t.c
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
	w := t.watched
	switch {
	case w != nil && (w.lost || !w.stands(c.topology)):
		c.ok() // the watched keys count as changed already
		return
	case w != nil && c.slots != nil && w.slot != h.slot:
		c.severalServers("WATCH, together with the keys that are watched already,")
		return
	case w != nil && c.slots == nil && w.node != node:
		c.fail("ERR redoubt: these keys belong to another server of the pool than the keys that are watched already" + c.target.tagHint())
		return
	}
	if !c.quiesce() { // what came before must have run before
		return
	}
	if t.watched == nil {
		x, ok := c.borrow(node)
		if !ok {
			return
		}
		t.watched = &watch{home: h, conn: x}
	}
	c.as(Passed)
	reply, err := c.ask(t.watched.conn, 1, raw)
	if c.slots != nil && w == nil && err == nil {
		reply, err = t.watchElsewhere(raw, reply)
	} else if err == nil && t.watched.node.Redirects(reply) {
		t.watched.lost = true
		reply = okRaw
	}
	if err != nil {
		t.endWatch()
		reply = unasked(node, reply, err)
	}
	c.reply(reply)
}

// unwatch ends WATCH and returns its connection to the pool.
func (t *poolTransaction) unwatch() {
	c := t.c
	w := t.watched
	if w == nil {
		return
	}
	if reply, err := c.ask(w.conn, 1, unwatchRaw); err != nil || !bytes.Equal(reply, okRaw) {
		t.endWatch()
		return
	}
	t.watched = nil
	c.srv.stats.dedicated.Add(-1)
	w.conn.Return()
}

// endWatch ends WATCH and closes its connection.
func (t *poolTransaction) endWatch() {
	c := t.c
	if t.watched != nil {
		t.watched.conn.Close()
		t.watched = nil
		c.srv.stats.dedicated.Add(-1)
	}
}

// watchElsewhere repeats WATCH at the node that the reply redirects it to, if it does.
func (t *poolTransaction) watchElsewhere(raw, reply []byte) ([]byte, error) {
	c := t.c
	a := t.watched.node.Attempt()
	for {
		again, fault := a.Follow(c.ctx, reply)
		if fault != nil {
			t.endWatch()
			return fault.Reply(), nil
		}
		if !again {
			return reply, nil
		}
		at := t.watched.home
		at.node = a.Node()
		t.watched.conn.Return()
		t.watched = nil
		c.srv.stats.dedicated.Add(-1)
		ctx, cancel := context.WithTimeout(c.ctx, proxy.DefaultDialTimeout)
		x, err := a.Borrow(ctx, c.protocol)
		cancel()
		if err != nil {
			return c.notBorrowed(a.Node(), err), nil
		}
		c.srv.stats.dedicated.Add(1)
		t.watched = &watch{home: at, conn: x, ask: a.Asking()}
		if reply, err = c.ask(x, 1, raw); err != nil {
			return reply, err
		}
	}
}
