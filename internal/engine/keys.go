package engine

import (
	"math/rand/v2"
	"unsafe"
)

func cmdDel(c *call) {
	n := 0
	for _, key := range c.args[1:] {
		if c.write(key) != nil {
			c.remove(key)
			c.changed(key)
			c.notify(eventGeneric, "del", key)
			n++
		}
	}
	c.int(int64(n))
}

func cmdUnlink(c *call) { cmdDel(c) }

func cmdExists(c *call) {
	n := 0
	for _, key := range c.args[1:] {
		if c.peek(key) != nil {
			n++
		}
	}
	c.int(int64(n))
}

func cmdTouch(c *call) {
	n := 0
	for _, key := range c.args[1:] {
		if c.read(key) != nil {
			n++
		}
	}
	c.int(int64(n))
}

func cmdType(c *call) {
	if it := c.peek(c.args[1]); it != nil {
		c.status(it.val.kind().String())
	} else {
		c.status("none")
	}
}

// adopt gives key, which must not exist, the value of another key.
func (c *call) adopt(key []byte, from *item, at int64) *item {
	var it *item
	if from.val.kind() != kindString {
		it = c.create(key, from.val)
	} else {
		it = c.createString(key, int(from.val.n))
		if from.val.n <= maxRoom {
			it.val.setBytes(append(it.val.bytes(), from.val.bytes()...)) // it may have its room in from
		} else {
			it.val.setBytes(from.val.bytes())
		}
		it.val.form = from.val.form
	}
	if at != 0 {
		c.setExpire(key, it, at)
	}
	if it.val.kind() == kindHash {
		c.registerFields(it, asHash(it))
	}
	return it
}

func cmdRename(c *call)   { c.rename(false) }
func cmdRenamenx(c *call) { c.rename(true) }

func (c *call) rename(nx bool) {
	src, dst := c.args[1], c.args[2]
	it := c.write(src)
	if it == nil {
		c.err(errNoKey)
		return
	}
	if string(src) == string(dst) {
		if nx {
			c.int(0)
		} else {
			c.ok()
		}
		return
	}
	if c.write(dst) != nil {
		if nx {
			c.int(0)
			return
		}
		c.remove(dst)
	}
	at := it.val.expire
	c.adopt(dst, c.remove(src), at)
	c.changed(src)
	c.changed(dst)
	c.notify(eventGeneric, "rename_from", src)
	c.notify(eventGeneric, "rename_to", dst)
	if nx {
		c.int(1)
	} else {
		c.ok()
	}
}

// argDB reads the number of a database.
func (c *call) argDB(arg []byte) (int, bool) {
	n, ok := parseInt(arg)
	if !ok {
		c.err(errNotInt)
		return 0, false
	}
	if n != int64(int32(n)) { //nolint:gosec // that is the question
		c.err("ERR value is out of range, value must between -2147483648 and 2147483647")
		return 0, false
	}
	if n < 0 || n >= databaseCount {
		c.err("ERR DB index is out of range")
		return 0, false
	}
	return int(n), true
}

func cmdMove(c *call) {
	key := c.args[1]
	dst, ok := c.argDB(c.args[2])
	if !ok {
		return
	}
	src := c.db
	if src == dst {
		c.err("ERR source and destination objects are the same")
		return
	}
	it := c.write(key)
	if it == nil {
		c.int(0)
		return
	}
	c.db = dst
	if c.write(key) != nil {
		c.db = src
		c.int(0)
		return
	}
	c.db = src
	at := it.val.expire
	c.remove(key)
	c.db = dst
	c.adopt(key, it, at)
	c.changed(key)
	c.notify(eventGeneric, "move_to", key)
	c.db = src
	c.changed(key)
	c.notify(eventGeneric, "move_from", key)
	c.int(1)
}

func cmdCopy(c *call) {
	src, dst := c.args[1], c.args[2]
	from, to, replace := c.db, c.db, false
	for i := 3; i < len(c.args); i++ {
		switch a := c.args[i]; {
		case is(a, "replace"):
			replace = true
		case is(a, "db") && i+1 < len(c.args):
			n, ok := c.argDB(c.args[i+1])
			if !ok {
				return
			}
			to = n
			i++
		default:
			c.syntax()
			return
		}
	}
	if from == to && string(src) == string(dst) {
		c.err("ERR source and destination objects are the same")
		return
	}
	it := c.read(src)
	if it == nil {
		c.int(0)
		return
	}
	c.db = to
	defer func() { c.db = from }()
	there := c.write(dst) != nil
	if there && !replace {
		c.int(0)
		return
	}
	copied := c.clone(&it.val) // before anything is changed: it may be stopped
	if there {
		c.remove(dst)
	}
	c.adopt(dst, &item{val: *copied}, it.val.expire)
	c.changed(dst)
	c.notify(eventGeneric, "copy_to", dst)
	c.int(1)
}

// clone returns a copy that shares nothing, without the time to live.
func (c *call) clone(v *value) *value {
	out := &value{form: v.form}
	switch v.kind() {
	case kindString:
		out.setBytes(c.copied(v.bytes()))
	case kindList:
		out.p = unsafe.Pointer(new(list))
		v.asList().all(func(s string) bool {
			c.work(stepsPerMember)
			out.asList().pushBack(s)
			return true
		})
	case kindSet:
		return v.asSet().clone(c.work)
	case kindZset:
		return v.asZset().clone(c.work)
	case kindHash:
		return v.asHash().clone(c.work)
	case kindStream:
		out.p = unsafe.Pointer(v.asStream().Clone(c.workBytes))
	}
	return out
}

func cmdRandomkey(c *call) {
	for range 100 {
		total := c.size()
		if total == 0 {
			break
		}
		n := rand.IntN(total)
		for i := range c.e.shards {
			ks := c.e.shards[i].dbs[c.db]
			if ks == nil {
				continue
			}
			if n -= ks.keys.len(); n < 0 {
				if it := ks.keys.random(); c.lookup(view(it.key)) != nil {
					c.str(it.key)
					return
				}
				break
			}
		}
	}
	c.null()
}

// size is the number of keys; all shards must be held.
func (c *call) size() (n int) {
	for i := range c.e.shards {
		if ks := c.e.shards[i].dbs[c.db]; ks != nil {
			n += ks.keys.len()
		}
	}
	return n
}

func cmdDbsize(c *call) { c.int(int64(c.size())) }

func cmdFlushdb(c *call)  { c.flush(c.db, c.db) }
func cmdFlushall(c *call) { c.flush(0, databaseCount-1) }

func (c *call) flush(first, last int) {
	if len(c.args) > 2 || len(c.args) == 2 && !is(c.args[1], "sync") && !is(c.args[1], "async") {
		c.syntax()
		return
	}
	if s := c.e.snapshots.now; s != nil {
		s.fail(errFlushed)
	}
	for i := range c.e.shards {
		sh := &c.e.shards[i]
		for db := first; db <= last; db++ {
			ks := sh.dbs[db]
			if ks == nil {
				continue
			}
			sh.touchWatched(db, ks, nil, c.time())
			c.signalStreams(sh, db, ks)
			c.emptied(ks)
			sh.setKeyspace(db, nil)
		}
	}
	c.invalidateAll()
	c.dirty++
	c.ok()
}

// signalStreams is [call.signalStream] for all keys of a keyspace, which may be nil.
func (c *call) signalStreams(sh *shard, db int, ks *keyspace) {
	if ks == nil {
		return
	}
	for dk := range sh.blocked {
		if it := ks.keys.get(view(dk.key)); dk.db == db && it != nil && it.val.kind() == kindStream {
			c.ready = append(c.ready, readyKey(dk))
		}
	}
}

func cmdSwapdb(c *call) {
	a, ok := parseInt(c.args[1])
	if !ok || a != int64(int32(a)) { //nolint:gosec // that is the question
		c.err("ERR invalid first DB index")
		return
	}
	b, ok := parseInt(c.args[2])
	if !ok || b != int64(int32(b)) { //nolint:gosec // that is the question
		c.err("ERR invalid second DB index")
		return
	}
	if a < 0 || b < 0 || a >= databaseCount || b >= databaseCount {
		c.err("ERR DB index is out of range")
		return
	}
	if a == b {
		c.ok()
		return
	}
	if s := c.e.snapshots.now; s != nil {
		s.fail(errFlushed)
		s.again = true
	}
	for i := range c.e.shards {
		sh := &c.e.shards[i]
		sh.touchWatched(int(a), sh.dbs[a], sh.dbs[b], c.time())
		sh.touchWatched(int(b), sh.dbs[b], sh.dbs[a], c.time())
		c.signalStreams(sh, int(a), sh.dbs[a])
		c.signalStreams(sh, int(b), sh.dbs[b])
		ofA := sh.dbs[a]
		sh.setKeyspace(int(a), sh.dbs[b])
		sh.setKeyspace(int(b), ofA)
		for dk := range sh.blocked {
			if ks := sh.dbs[dk.db]; ks != nil && ks.keys.get(view(dk.key)) != nil {
				c.ready = append(c.ready, readyKey(dk))
			}
		}
	}
	c.dirty++
	c.ok()
}
