package engine

import (
	"cmp"
	"strconv"
)

type queued struct {
	cmd    *command
	args   [][]byte
	script compiled
}

// A watch is the state of a key when a session began to watch it.
type watch bool

const (
	watchKey     watch = false
	watchExpired watch = true // it had expired already: deleting it is no change
)

// enqueue queues a command, and returns why it can't, "" if it can. Behind a command that was
// refused nothing is kept, because EXEC will fail.
func (s *Session) enqueue(cmd *command, args [][]byte) string {
	if s.abort {
		return ""
	}
	size := perName
	for _, a := range args {
		size += len(a) + perName
	}
	source, isScript := cmd.source(args)
	if isScript {
		size += len(source) * compiledSize
	}
	if s.queued+size > s.e.bounds.transaction {
		return "ERR the transaction is larger than " + strconv.Itoa(s.e.bounds.transaction) + " bytes"
	}
	if !s.queueHeld.set(s.account, s.queued+size) {
		return "ERR the command is not queued: " + noRoom
	}
	s.queued += size
	kept := make([][]byte, len(args))
	for i, a := range args {
		kept[i] = clone(a)
	}
	q := queued{cmd: cmd, args: kept}
	if isScript { // EXEC holds locks
		q.script.script, q.script.err = s.e.cache.read(source, s.e)
	}
	s.queue = append(s.queue, q)
	return ""
}

// abandonQueue makes EXEC fail, and keeps nothing for it.
func (s *Session) abandonQueue() {
	s.abort = true
	s.forgetQueue()
}

func (s *Session) forgetQueue() {
	s.queue, s.queued = nil, 0
	s.queueHeld.set(s.account, 0)
}

func (s *Session) discard() {
	s.inMulti, s.abort = false, false
	s.forgetQueue()
	s.unwatch()
}

func cmdMulti(c *call) {
	if c.s.inMulti {
		c.err("ERR MULTI calls can not be nested")
		return
	}
	c.s.inMulti = true
	c.ok()
}

func cmdDiscard(c *call) {
	if !c.s.inMulti {
		c.err("ERR DISCARD without MULTI")
		return
	}
	c.s.discard()
	c.ok()
}

func cmdWatch(c *call) {
	if c.s.inMulti {
		c.err("ERR WATCH inside MULTI is not allowed")
		return
	}
	c.s.finishUnwatch()
	for _, key := range c.args[1:] {
		if why := c.s.watch(c, key); why != "" {
			c.err(why)
			return
		}
	}
	c.ok()
}

// watch returns why the session may not watch one more key, and "" otherwise.
func (s *Session) watch(c *call, key []byte) string {
	i := shardOf(key)
	sh := &s.e.shards[i]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	dk := dbKey{s.db, string(key)}
	if _, ok := sh.watched[dk][s]; ok {
		return ""
	}
	size := s.watchBytes + len(key) + perName
	switch {
	case size > s.e.bounds.names:
		return "ERR too many keys are watched: UNWATCH first"
	case !s.watchHeld.set(s.account, size+(len(s.watching)+1)*perListed):
		return "ERR the watched keys have no room: " + noRoom
	}
	s.watchBytes = size
	if sh.watched == nil {
		sh.watched = map[dbKey]map[*Session]watch{}
	}
	if sh.watched[dk] == nil {
		sh.watched[dk] = map[*Session]watch{}
	}
	_, expired := sh.dbs[s.db].find(key, c.time())
	sh.watched[dk][s] = watch(expired)
	s.watching = append(s.watching, dk)
	return ""
}

func cmdUnwatch(c *call) {
	if !c.s.executing {
		c.s.unwatch()
	}
	c.ok()
}

// unwatch drops the watched keys. Keys in shards that a slow script holds are left for
// finishUnwatch, because unwatch must not answer BUSY.
func (s *Session) unwatch() {
	s.unwatchBy(func(mu *shardLock) bool {
		if s.e.scripts.slow.Load() > 0 {
			return mu.TryLock()
		}
		mu.Lock()
		return true
	})
}

// finishUnwatch drops the keys that unwatch has left. It may wait.
func (s *Session) finishUnwatch() {
	if s.unwatching {
		s.unwatchBy(func(mu *shardLock) bool { mu.Lock(); return true })
	}
}

func (s *Session) unwatchBy(lock func(*shardLock) bool) {
	s.unwatching = true
	for n := len(s.watching); n > 0; n-- {
		dk := s.watching[n-1]
		sh := &s.e.shards[shardOf(view(dk.key))]
		if !lock(&sh.mu) {
			return
		}
		s.unwatchKey(sh, dk)
		sh.mu.Unlock()
		s.watching = s.watching[:n-1]
	}
	s.watching, s.watchBytes, s.unwatching = nil, 0, false
	s.watchHeld.set(s.account, 0)
	s.stale.Store(false)
}

func (s *Session) unwatchKey(sh *shard, dk dbKey) {
	delete(sh.watched[dk], s)
	if len(sh.watched[dk]) == 0 {
		delete(sh.watched, dk)
	}
}

// find reports whether key is there, and whether its time has passed. ks may be
// nil.
func (ks *keyspace) find(key []byte, now int64) (there, expired bool) {
	if ks == nil {
		return false, false
	}
	it := ks.keys.get(key)
	return it != nil, it != nil && it.val.expire != 0 && it.val.expire < now
}

// touchExpired tells the sessions that watch key that it was deleted because it had expired.
func (sh *shard) touchExpired(dk dbKey) {
	for s, w := range sh.watched[dk] {
		if w == watchKey {
			s.stale.Store(true)
		}
		sh.watched[dk][s] = watchKey // the next change counts
	}
}

// touchWatched tells the sessions that watch keys of a database that from replaces its keys, ks.
// Either may be nil.
func (sh *shard) touchWatched(db int, ks, from *keyspace, now int64) {
	for dk, sessions := range sh.watched {
		if dk.db != db {
			continue
		}
		there, _ := ks.find(view(dk.key), now)
		will, expired := from.find(view(dk.key), now)
		for s, w := range sessions {
			if was := there && w == watchKey; was || will && !expired {
				s.stale.Store(true)
			}
			sessions[s] = watch(expired)
		}
	}
}

// cmdExec locks the shards of everything that was queued or watched, and runs
// it as one.
func cmdExec(c *call) {
	s := c.s
	switch {
	case !s.inMulti:
		c.err("ERR EXEC without MULTI")
		return
	case s.abort:
		s.discard()
		c.err("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	s.finishUnwatch()
	var set shardSet
	all := false
	for _, q := range s.queue {
		if why := s.unwritable(q.cmd); why != "" {
			s.discard()
			c.err("EXECABORT Transaction discarded because of: " + why)
			return
		}
		c.script = q.script
		all = all || !c.lockKeys(&set, q.cmd, q.args)
	}
	if all {
		set.fill()
	}
	for _, w := range s.watching {
		set.add(shardOf(view(w.key)))
	}
	c.all, c.try = all, false // the transaction is gone if it isn't run now
	if !c.lockServing(&set, func(keys [][]byte) [][]byte {
		for _, q := range s.queue {
			for _, i := range q.cmd.keys(nil, q.args) {
				keys = append(keys, q.args[i])
			}
		}
		return keys
	}) {
		c.all = false
		s.discard()
		if c.e.closed.Load() {
			c.err(closed)
		} else {
			c.err(busyExec)
		}
		return
	}
	c.held = set
	defer func() {
		c.e.unlock(&set)
		c.released()
	}()
	defer c.settleSeen()
	fresh := !s.stale.Load()
	for _, dk := range s.watching {
		sh := &s.e.shards[shardOf(view(dk.key))]
		if _, expired := sh.dbs[dk.db].find(view(dk.key), c.time()); expired && sh.watched[dk][s] == watchKey {
			fresh = false
		}
		s.unwatchKey(sh, dk)
	}
	s.watching, s.watchBytes = nil, 0
	s.watchHeld.set(s.account, 0)
	s.stale.Store(false)
	queue := s.queue
	s.inMulti, s.queue, s.queued = false, nil, 0
	defer s.forgetQueue() // it counts until it has run
	if !fresh {
		c.nullArray()
		return
	}
	if c.e.master.Load() != nil { // it may have come while this waited for the shards
		for _, q := range queue {
			if why := s.readOnly(q.cmd); why != "" {
				c.err("EXECABORT Transaction discarded because of: " + why)
				return
			}
		}
	}
	s.runQueue(c, queue)
}

func (s *Session) runQueue(c *call, queue []queued) {
	s.executing = true
	defer func() { s.executing = false }() // whatever happens
	var all effects
	var touched [][]byte
	full := "" // why no more changes can be gathered for the log
	c.noBlock = true
	c.array(len(queue))
	for _, q := range queue {
		c.cmd, c.args, c.db, c.proto, c.script = q.cmd, q.args, s.db, s.proto, q.script
		c.dirty, c.logged, c.touched, c.reads = 0, false, nil, false
		c.effects.reset()
		if c.e.monitors.n.Load() > 0 {
			c.monitor(q.args)
		}
		if why := cmp.Or(full, all.overdone(c.e)); why != "" && q.cmd.flags&(flagWrite|flagScript) != 0 {
			c.err(why)
		} else {
			c.runQueued()
		}
		c.e.stats.dirty.Add(int64(c.dirty))
		if c.journaled() {
			c.settleEffects()
			if c.logged && !c.reserveEffects(c.effects.bytes) { // it is not the command itself, which counts already
				full = "ERR the changes of the transaction have no room: " + scriptsHold
			}
			all.join(&c.effects)
			touched = append(touched, c.touched...)
		}
	}
	s.executing = false
	c.effects, c.touched = all, touched
	c.commit()
	if len(c.broadcast) > 0 {
		c.sendBroadcast()
	}
	c.serve()
}

// runQueued runs one command of a transaction or a script. A panic ends that command only.
func (c *call) runQueued() {
	from := len(c.w)
	defer func() {
		if r := recover(); r != nil {
			c.panicked(from, r)
			c.logPanicked(r)
		}
	}()
	if c.home != nil {
		c.home.counters.commands++
	} else {
		c.e.stats.commands.Add(1)
	}
	if c.running != nil {
		c.expireFirst()
	}
	c.handle()
	if c.scripted {
		return
	}
	if len(c.w) > from && c.w[from] == '-' {
		c.s.countError(c.w[from:])
	}
	if c.s.tracker.Load() != nil {
		c.remember()
	}
}
