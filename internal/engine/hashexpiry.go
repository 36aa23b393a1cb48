package engine

import (
	"runtime"
)

// A small hash searches its fields for expired ones. A large hash has a heap of those entries of
// its dict that have a time to live.

// setExpire gives a field a deadline in Unix ms, or takes it away with 0.
func (h *hash) setExpire(name []byte, at int64) {
	b := h.big()
	if b == nil {
		if at == 0 || !h.has(name) { // a packed field has none
			return
		}
		b = h.unpack()
	}
	if b.dict != nil {
		if e := b.dict.get(name); e != nil {
			b.setDeadline(e, at)
		}
		return
	}
	f := b.find(name)
	if f == nil || f.expire == at {
		return
	}
	b.countVolatile(f.expire != 0, at != 0)
	f.expire = at
	if at != 0 && (b.soonest == 0 || at < b.soonest) {
		b.soonest = at
	}
}

// setDeadline is setExpire for an entry of dict.
func (b *bigHash) setDeadline(e *entry[string], at int64) {
	if at == 0 && e.aux < 0 {
		return
	}
	if b.expiring == nil {
		b.expiring = &deadlines[*entry[string]]{}
	}
	b.countVolatile(e.aux >= 0, at != 0)
	b.expiring.set(e, at)
}

func (b *bigHash) countVolatile(before, after bool) {
	switch {
	case after && !before:
		b.volatile++
	case before && !after:
		b.volatile--
	}
}

// earliest returns when the next field expires, 0 for never. It may be too
// early.
func (h *hash) earliest() int64 {
	b := h.big()
	switch {
	case b == nil || b.volatile == 0:
		return 0
	case b.dict == nil:
		return b.soonest
	}
	return b.expiring.at(0).at
}

// volatile is how many fields have a time to live.
func (h *hash) volatile() int {
	if b := h.big(); b != nil {
		return int(b.volatile)
	}
	return 0
}

// registered reports whether the keyspace remembers the hash for its sweeper.
func (h *hash) registered() bool {
	b := h.big()
	return b != nil && b.place >= 0
}

// due says whether fields may have expired.
func (h *hash) due(c *call) bool {
	at := h.earliest()
	return at != 0 && at < c.time()
}

// hides reports whether the call must not see a field, which has expired: in a replica it stays until the master deletes it.
func (c *call) hides(f field) bool {
	return f.expire != 0 && f.expire < c.time() && !c.replays()
}

// field is get for a field that the call may see.
func (c *call) field(h *hash, name []byte) (f field, ok bool) {
	if h != nil {
		f, ok = h.get(name)
	}
	if !ok || c.hides(f) {
		return field{}, false
	}
	return f, true
}

// visible is how many fields of h the call may see.
func (c *call) visible(h *hash) int {
	n := h.len()
	if c.replays() || !h.due(c) {
		return n
	}
	if d := h.big().expiring; d != nil && h.many() != nil {
		return n - d.before(0, c.time())
	}
	h.each(func(_ string, f field) bool {
		if c.hides(f) {
			n--
		}
		return true
	})
	return n
}

// eachField is each for the fields that the call may see.
func (c *call) eachField(h *hash, f func(name string, v field) bool) {
	h.each(func(name string, v field) bool { return c.hides(v) || f(name, v) })
}

// fieldStep is how many fields expire without letting others have the shard.
const fieldStep = 256

// removeExpired removes at most most of the expired fields, and of a small hash all of them. It
// returns their names.
func (h *hash) removeExpired(now int64, most int) (gone [][]byte) {
	b := h.big()
	if b.dict != nil {
		for b.expiring.len() > 0 && b.expiring.at(0).at < now && len(gone) < most {
			gone = append(gone, view(b.expiring.at(0).v.key))
			h.remove(gone[len(gone)-1])
		}
		return gone
	}
	b.soonest = 0
	for _, f := range b.few {
		switch {
		case f.expire == 0:
		case f.expire < now:
			gone = append(gone, view(f.name))
		case b.soonest == 0 || f.expire < b.soonest:
			b.soonest = f.expire
		}
	}
	for _, name := range gone {
		h.remove(name)
	}
	return gone
}

// expireFields removes at most most of the expired fields, and the key when no field is left.
func (c *call) expireFields(it *item, h *hash, most int) {
	key := view(it.key)
	c.note(c.shard(key).dbs[c.db], it)
	gone := h.removeExpired(c.time(), most)
	if len(gone) == 0 {
		return
	}
	c.e.stats.expiredFields.Add(int64(len(gone)))
	c.touch(c.shard(key), c.db, key)
	c.notify(eventHash, "hexpired", key)
	c.lapse(append([][]byte{[]byte("HDEL"), key}, gone...)...)
	if h.len() == 0 {
		c.removeEmpty(key)
	}
}

// manyExpired reports whether key is a hash with more expired fields than are removed in one step.
// The shard is locked.
func (c *call) manyExpired(sh *shard, key []byte) bool {
	ks := sh.dbs[c.db]
	if ks == nil || ks.fields.len() == 0 || ks.fields.at(0).at >= c.time() || !c.expires() {
		return false
	}
	it := ks.keys.get(key)
	if it == nil || it.val.kind() != kindHash {
		return false
	}
	h := asHash(it)
	return h.many() != nil && h.due(c) && h.volatile() > fieldStep
}

// expireFirst removes the expired fields of the keys of a script's command before the command runs,
// if they are many. The script can be stopped between two steps.
func (c *call) expireFirst() {
	if c.cmd.flags&flagNoLock != 0 {
		return
	}
	c.keyBuf = c.cmd.keys(c.keyBuf[:0], c.args)
	for _, i := range c.keyBuf {
		key := c.args[i]
		for sh := c.shard(key); c.manyExpired(sh, key); {
			it := sh.dbs[c.db].keys.get(key)
			c.expireFields(it, asHash(it), fieldStep)
			c.checkInterrupt()
		}
	}
}

// expireInSteps removes the expired fields of a hash, and unlocks the shard between the steps. No
// shard is held.
func (e *Engine) expireInSteps(i, db int, key []byte) {
	for e.expireStep(i, db, key) {
		runtime.Gosched()
	}
}

// expireStep reports whether there is more to do.
func (e *Engine) expireStep(i, db int, key []byte) (more bool) {
	sh := &e.shards[i]
	c := &call{e: e, db: db}
	c.held.add(i)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !c.manyExpired(sh, key) {
		return false
	}
	defer c.settleSweep("expiry", func() { more = false })
	c.sweepFields(sh.dbs[db].keys.get(key))
	return true
}
