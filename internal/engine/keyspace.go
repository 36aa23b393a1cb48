package engine

import "math"

// lookup returns the item of key, or nil. It deletes an expired key first.
func (c *call) lookup(key []byte) *item {
	sh := c.shard(key)
	ks := sh.dbs[c.db]
	if ks == nil {
		return nil
	}
	it := ks.keys.get(key)
	if it == nil {
		return nil
	}
	if it.val.expire != 0 && it.val.expire < c.time() {
		switch {
		case c.expires() && c.e.pausing.active() == nil || !c.replays() && c.cmd.flags&flagWrite != 0: // a write to a replica, or one that a pause doesn't hold back
			c.expireItem(sh, ks, it)
			return nil
		case !c.replays():
			return nil // the master deletes it, or the sweeper when the pause is over
		}
	}
	if it.val.form == formHash {
		switch h := asHash(it); {
		case !h.due(c):
		case c.expires() || !c.replays() && c.cmd.flags&flagWrite != 0: // as for keys
			c.expireFields(it, h, math.MaxInt) // manyExpired has removed large numbers before
			if h.len() == 0 {
				return nil
			}
		case c.visible(h) == 0:
			return nil
		}
	}
	if c.cmd.flags&flagWrite != 0 {
		c.note(ks, it)
	}
	return it
}

// peek is lookup for commands that do not count as access.
func (c *call) peek(key []byte) *item { return c.lookup(key) }

// read is lookup for commands that count as reads in the statistics.
func (c *call) read(key []byte) *item {
	it := c.lookup(key)
	if it == nil {
		c.shard(key).counters.misses++
		return nil
	}
	c.shard(key).counters.hits++
	c.accessed(it)
	return it
}

// write is lookup for commands that change the value.
func (c *call) write(key []byte) *item {
	it := c.lookup(key)
	if it != nil {
		c.accessed(it)
	}
	return it
}

// isString checks the kind of it, which may be nil, and writes the error.
func (c *call) isString(it *item) bool {
	if it != nil && it.val.kind() != kindString {
		c.wrongType()
		return false
	}
	return true
}

// create adds key, which must not exist, with a value that is not a string.
func (c *call) create(key []byte, v value) *item {
	it := c.newItem(key, &v, 0)
	c.signal(c.shard(key), it)
	return it
}

// createString adds key, which must not exist, with an empty string. The string may have room for n bytes.
func (c *call) createString(key []byte, n int) *item { return c.newItem(key, nil, n) }

func (c *call) newItem(key []byte, v *value, n int) *item {
	ks := c.shard(key).keyspace(c.db)
	it, room := ks.keys.create(key, n)
	if v != nil {
		it.val.become(v)
	} else {
		it.val.setBytes(room)
	}
	c.charge(ks, it, 0)
	it.val.state |= c.e.snapshots.mark
	it.val.access = c.e.firstAccess()
	c.notify(eventNew, "new", key)
	return it
}

// signal notes that blocked commands may have been waiting for it. A set or a hash, which no command
// waits for, is not noted: a key's place in the order of serving would be another than in Redis.
func (c *call) signal(sh *shard, it *item) {
	if len(sh.blocked) == 0 {
		return
	}
	switch it.val.kind() {
	case kindList, kindZset, kindStream:
	default:
		return
	}
	if _, ok := sh.blocked[dbKey{c.db, it.key}]; ok {
		c.ready = append(c.ready, readyKey{c.db, it.key})
	}
}

// signalStream is called before it loses its value. A stream's end ends the XREADGROUPs that wait
// for it.
func (c *call) signalStream(it *item) {
	if it.val.kind() == kindStream {
		c.signal(&c.e.shards[shardOf(view(it.key))], it)
	}
}

// setString makes key hold val, which the engine owns from then on, whatever
// it held before. The time to live is taken away.
func (c *call) setString(key, val []byte) *item {
	it := c.lookup(key)
	if it == nil {
		it = c.createString(key, 0)
	} else {
		c.clear(key, it)
	}
	it.val.setString(val, formString)
	return it
}

// storeString makes key hold a copy of val. The bytes of the old value are used again, for it or for a later string.
func (c *call) storeString(key, val []byte) *item { return c.store(key, val, c.copiedIfLong(val)) }

// store is storeString when there may be a copy of val already.
func (c *call) store(key, val, own []byte) *item {
	it := c.lookup(key)
	var old []byte
	if it == nil {
		it = c.createString(key, len(val))
		old = it.val.bytes()
	} else {
		if it.val.kind() == kindString {
			old = it.val.bytes()
		}
		c.clear(key, it)
		c.accessed(it)
	}
	switch {
	case own != nil:
		it.val.setBytes(own)
	case cap(old) >= len(val) && (it.holds(old) || cap(old) <= len(val)+len(val)/4+16):
		it.val.setBytes(append(old[:0], val...))
	default:
		ks := c.shard(key).dbs[c.db]
		it.val.setBytes(append(ks.spares.block(len(val)), val...))
		if old != nil && !it.holds(old) {
			ks.keep(old)
		}
	}
	return it
}

// keep keeps the block of a string that was replaced, for a later one.
func (ks *keyspace) keep(block []byte) {
	if ks.spares == nil {
		ks.spares = new(spares)
	}
	ks.spares.keep(block, ks.used/spareShare)
}

// spareShare is which part of the memory of a keyspace may be spare blocks, as a divisor.
const spareShare = 32

// clear empties an item that is about to be given another value.
func (c *call) clear(key []byte, it *item) {
	c.signalStream(it)
	ks := c.shard(key).dbs[c.db]
	if it.aux >= 0 {
		ks.expiring.drop(it)
	}
	ks.forgetFields(it)
	it.val.setString(nil, formString)
}

// remove deletes key, which must exist.
func (c *call) remove(key []byte) *item {
	ks := c.shard(key).dbs[c.db]
	it := ks.keys.remove(key)
	c.detach(ks, it)
	return it
}

// detach removes the other references to an item that has left the dict.
func (c *call) detach(ks *keyspace, it *item) {
	c.note(ks, it)
	c.signalStream(it)
	it.val.state |= itemGone
	ks.forgetFields(it)
	if it.aux >= 0 {
		at := it.val.expire
		ks.expiring.drop(it)
		it.val.expire = at
	}
}

// removeEmpty deletes key, which a command has just emptied.
func (c *call) removeEmpty(key []byte) {
	c.remove(key)
	c.notify(eventGeneric, "del", key)
}

// setExpire gives a key a deadline in Unix ms, or takes it away with 0.
func (c *call) setExpire(key []byte, it *item, at int64) {
	c.shard(key).keyspace(c.db).expiring.set(it, at)
	if at != 0 {
		c.e.sweeper.wake(c.e, at)
	}
}

// changed must be called for each key that a command wrote to.
func (c *call) changed(key []byte) {
	c.dirty++
	c.touch(c.shard(key), c.db, key)
}

func (c *call) touch(sh *shard, db int, key []byte) {
	c.tell(sh, key)
	if len(sh.watched) == 0 {
		return
	}
	for s := range sh.watched[dbKey{db, text(key)}] {
		s.stale.Store(true)
	}
}

// tell notes for the Journal, and for CLIENT TRACKING, that key has changed.
func (c *call) tell(sh *shard, key []byte) {
	if c.e.opts.Journal != nil {
		c.touched = append(c.touched, key)
	}
	if c.e.tracking.n.Load() > 0 {
		c.invalidate(sh, key)
	}
}

// expireItem deletes an expired item.
func (c *call) expireItem(sh *shard, ks *keyspace, it *item) {
	ks.keys.remove(view(it.key))
	c.detach(ks, it)
	c.e.stats.expired.Add(1)
	key := view(it.key)
	c.tell(sh, key)
	if len(sh.watched) > 0 {
		sh.touchExpired(dbKey{c.db, it.key})
	}
	c.notify(eventExpired, "expired", key)
	c.lapse([]byte("DEL"), key)
}

// clone returns a copy of b that the engine may keep.
func clone(b []byte) []byte {
	c := make([]byte, len(b))
	copy(c, b)
	return c
}
