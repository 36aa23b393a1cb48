package engine

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// A Wait is a command that waits for a key. It has no goroutine. The command that writes the key
// serves it; Waits for one key are served in the order of their arrival.
type Wait struct {
	s       *Session
	cmd     *command
	args    [][]byte
	db      int
	proto   resp.Protocol
	keys    [][]byte
	needs   shardSet // the shards to lock for it, beside that of the key that became ready
	expired []byte   // the reply when time runs out
	timer   Timer
	held    bufferAccount // of args and keys; guarded by mu once it waits

	mu    sync.Mutex
	over  bool
	ended bool // done is closed
	reply []byte
	then  func()
	mute  bool // the client has asked for no reply; owned by the session's goroutine
	done  chan struct{}
}

// Done is closed when the reply is there.
func (w *Wait) Done() <-chan struct{} { return w.done }

// Then sets a function to be called once when the reply is there, by the
// goroutine that served it, which holds locks: it must be quick and must not
// call the engine. It is called at once when the reply is there already.
func (w *Wait) Then(f func()) {
	w.mu.Lock()
	if !w.ended {
		w.then, f = f, nil
	}
	w.mu.Unlock()
	if f != nil {
		f()
	}
}

// Append appends the reply to dst. It may be called after Done only.
func (w *Wait) Append(dst []byte) []byte {
	if w.mute {
		return dst
	}
	return append(dst, w.reply...)
}

// Cancel gives up waiting, as for a client that is gone. It reports false when
// the reply was there already, which means that the command took effect.
func (w *Wait) Cancel() bool { return w.finish(nil) }

// unblock ends the wait as CLIENT UNBLOCK does: with the reply of a time-out, or with an error.
func (w *Wait) unblock(how unblockReason) bool {
	if how == unblockError {
		return w.finish(errorReply("UNBLOCKED client unblocked via CLIENT UNBLOCK"))
	}
	return w.finish(w.expired)
}

// An unblockReason says how a wait is ended from outside.
type unblockReason uint8

// The two ways of CLIENT UNBLOCK.
const (
	unblockTimeout unblockReason = iota
	unblockError
)

// finish sets the reply once. It reports false when there was one.
func (w *Wait) finish(reply []byte) bool {
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return false
	}
	w.settle(reply, 0)
	go w.s.e.forget(w) // shards may be locked here
	return true
}

// settle completes the wait, once the log is on disk up to end. w.mu is held,
// and released.
func (w *Wait) settle(reply []byte, end uint64) {
	w.over, w.reply = true, reply
	w.held.set(w.s.account, 0)
	if reply != nil {
		w.countReply(reply)
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	w.s.wait.CompareAndSwap(w, nil)
	w.s.e.stats.blocked.Add(-1)
	if end == 0 {
		w.release()
		return
	}
	w.mu.Unlock()
	w.s.e.log.After(end, func(err error) {
		w.mu.Lock()
		if err != nil {
			w.reply = misconfWait(err)
		}
		w.release()
	})
}

// release lets the reply be taken. w.mu is held, and released.
func (w *Wait) release() {
	then := w.then
	w.ended = true
	close(w.done)
	w.mu.Unlock()
	if then != nil {
		then()
	}
}

// block makes the command wait for keys, for at most timeout, for ever with 0.
// expired is the reply when time runs out.
func (c *call) block(keys [][]byte, timeout time.Duration, expired []byte) {
	if c.noBlock {
		c.w = append(c.w, expired...)
		return
	}
	size := 0
	for _, a := range c.args {
		size += len(a) + perName
	}
	for _, k := range keys {
		size += len(k) + 2*perName
	}
	var held bufferAccount
	if !held.set(c.s.account, size) {
		c.err("ERR the command has no room to wait: " + noRoom)
		return
	}
	args := make([][]byte, len(c.args))
	for i, a := range c.args {
		args[i] = clone(a)
	}
	w := &Wait{s: c.s, cmd: c.cmd, args: args, db: c.db, proto: c.proto, expired: expired, held: held, done: make(chan struct{})}
	w.needs = c.held
	if c.cmd.flags&flagEachKey != 0 {
		w.needs = shardSet{}
	}
	seen := map[string]struct{}{}
	for _, k := range keys {
		if _, twice := seen[string(k)]; twice {
			continue
		}
		k = clone(k)
		seen[text(k)] = struct{}{}
		w.keys = append(w.keys, k)
		sh := c.shard(k)
		if sh.blocked == nil {
			sh.blocked = map[dbKey][]*Wait{}
		}
		dk := dbKey{c.db, text(k)}
		sh.blocked[dk] = append(sh.blocked[dk], w)
	}
	c.s.wait.Store(w)
	c.e.stats.blocked.Add(1)
	if timeout > 0 {
		w.mu.Lock()
		w.timer = c.e.clock.AfterFunc(timeout, func() { w.finish(expired) })
		w.mu.Unlock()
	}
	c.wait = w
}

// forget removes w from the queues of its keys.
func (e *Engine) forget(w *Wait) {
	e.replication.forgetWait(w)
	for _, k := range w.keys {
		sh := &e.shards[shardOf(k)]
		sh.mu.Lock()
		sh.drop(w, dbKey{w.db, string(k)})
		sh.mu.Unlock()
	}
}

func (sh *shard) drop(w *Wait, dk dbKey) {
	queue := sh.blocked[dk]
	i := slices.Index(queue, w)
	if i < 0 {
		return
	}
	if len(queue) == 1 {
		delete(sh.blocked, dk)
		return
	}
	sh.blocked[dk] = slices.Delete(queue, i, i+1)
}

// mayServe says whether the command may make a key ready.
func (c *call) mayServe() bool { return c.cmd.writes() || c.cmd.Name == "exec" }

// lockServing locks set, and the further shards that serving blocked commands needs, such as that
// of BLMOVE's destination: no other command gets between. When lockShard fails for one of them, it
// locks nothing and reports false.
func (c *call) lockServing(set *shardSet, keys func([][]byte) [][]byte) bool {
	for {
		if !c.e.lockAll(set, c.lockShard) {
			return false
		}
		if c.all || !c.mayServe() || !c.e.anyBlocked(set) {
			return true
		}
		held := *set
		if !c.e.widen(set, c.db, keys(nil)) {
			return true
		}
		c.e.unlock(&held)
	}
}

func (e *Engine) anyBlocked(set *shardSet) (any bool) {
	set.each(func(i int) { any = any || len(e.shards[i].blocked) > 0 })
	return any
}

// widen adds to set, which is locked, the shards for serving the commands that wait for keys, and
// for the keys that become ready by that. It reports whether it added any.
func (e *Engine) widen(set *shardSet, db int, keys [][]byte) bool {
	held := *set
	for n := 0; n < len(keys); n++ {
		i := shardOf(keys[n])
		if !held.has(i) {
			continue // its Waits are found when it is locked
		}
		for _, w := range e.shards[i].blocked[dbKey{db, string(keys[n])}] {
			for j := range set {
				set[j] |= w.needs[j]
			}
			for _, at := range w.cmd.keys(nil, w.args) {
				if !slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, w.args[at]) }) {
					keys = append(keys, w.args[at])
				}
			}
		}
	}
	return *set != held
}

// serve runs again, in order, the commands that wait for keys that became ready, while the call
// still holds its shards. Keys whose Waits need other shards stay in c.ready for serveLater.
func (c *call) serve() {
	if c.s != nil && c.s.executing {
		return // at the end of the transaction
	}
	var postponed []readyKey
	for i := 0; i < len(c.ready); i++ { // serving may make more keys ready
		if rk := c.ready[i]; !c.serveKey(rk) {
			postponed = append(postponed, rk)
		}
	}
	c.ready = append(c.ready[:0], postponed...)
}

// serveKey reports false when the next in the queue needs shards that are not
// held.
func (c *call) serveKey(rk readyKey) bool {
	key := []byte(rk.key)
	dk := dbKey(rk)
	sh := &c.e.shards[shardOf(key)]
	for next := 0; next < len(sh.blocked[dk]); {
		w := sh.blocked[dk][next]
		if more := w.needs.minus(&c.held); !more.empty() {
			return false
		}
		w.mu.Lock()
		if w.over {
			w.mu.Unlock()
			sh.drop(w, dk)
			continue
		}
		r := call{e: c.e, s: w.s, cmd: w.cmd, args: w.args, proto: w.proto, db: w.db, held: c.held, now: c.now, only: key, noBlock: true}
		served := r.retry()
		c.ready = append(c.ready, r.ready...)
		if !served {
			w.mu.Unlock()
			next++ // it waits for another type, and stays
			continue
		}
		sh.drop(w, dk)
		var end uint64
		if c.e.strict {
			r.eachHeld(func(sh *shard) { end = max(end, sh.saved) })
		}
		w.countServed()
		w.settle(append(r.w, r.behind...), end)
		if len(w.keys) > 1 {
			go c.e.forget(w)
		}
	}
	return true
}

// retry runs a waiting command again and reports whether it has a reply now. A panic
// becomes that reply and must not leave retry: the caller has locked the client's w.mu.
func (c *call) retry() (served bool) {
	defer func() {
		if r := recover(); r != nil {
			c.panicked(0, r)
			served = true
		}
	}()
	defer c.settle()
	defer func() {
		if r := recover(); r != nil {
			c.panicked(0, r)
			served = true
			c.logPanicked(r)
			c.log()
		}
	}()
	c.cmd.handler(c)
	if c.dirty > 0 || len(c.effects.commands) > 0 {
		c.log()
	}
	if len(c.broadcast) > 0 {
		c.sendBroadcast()
	}
	return c.wait == nil && len(c.w) > 0
}

// serveLater serves the Waits that serve could not, with all their shards locked. No shard is held
// before.
func (c *call) serveLater() {
	for len(c.ready) > 0 {
		rk := c.ready[0]
		c.ready = append(c.ready[:0], c.ready[1:]...)
		i := shardOf([]byte(rk.key))
		sh := &c.e.shards[i]
		var set shardSet
		sh.mu.Lock()
		for _, w := range sh.blocked[dbKey(rk)] {
			for j := range set {
				set[j] |= w.needs[j]
			}
		}
		sh.mu.Unlock()
		set.add(i)
		r := call{e: c.e, db: rk.db, held: set, ready: []readyKey{rk}}
		c.e.lock(&set)
		func() {
			defer c.e.unlock(&set)
			r.serve()
		}()
		c.ready = append(c.ready, r.ready...)
	}
}
