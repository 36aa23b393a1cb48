package engine

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// An evictor finds keys to evict when memory is full. As Redis does, it samples a few keys of a
// random shard, keeps the best candidates of all samples in a pool, and evicts the best of the
// pool.
//
// The command that needs memory evicts before it takes its own locks. It locks one shard at a time,
// and skips a shard that another call holds, so it never waits for a script on other keys. It holds
// a lock only to sample a few keys or to delete one.
type evictor struct {
	mu      sync.Mutex // under it shards are only tried, never waited for
	pool    []candidate
	weights [shardCount]uint64 // the sums of the shards' keys up to each
	picks   int                // until they are counted again
	version int                // counts resets

	running bool // in the background
	again   bool // there is more to do
	stopped bool
	wg      sync.WaitGroup

	idle sync.Pool // of *eviction
}

// A candidate is a key as it was when it was looked at.
type candidate struct {
	db    int
	key   string
	score uint64 // the highest goes first
	stamp uint64 // its access then: a difference means that it was used since
}

const (
	poolSize     = 16
	mostShards   = 8 // that are looked at for one key
	picksAtOnce  = 1024
	findAttempts = 16
	failures     = 16 // after which the shards with keys are all taken
)

// reset drops the candidates that were found under another policy.
func (v *evictor) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pool, v.picks = nil, 0
	v.version++
}

func (v *evictor) stop() {
	v.mu.Lock()
	v.stopped = true
	v.mu.Unlock()
	v.wg.Wait()
}

type room uint8

const (
	roomMade  room = iota
	roomLater      // there are keys to evict; that goes on in the background
	roomNone
)

// makeRoom evicts until the keys take no more than they may, or for as long as
// one command has patience. No shard's lock must be held.
func (e *Engine) makeRoom() room {
	if e.master.Load() != nil {
		return roomMade // a replica keeps what its master keeps
	}
	x, _ := e.memory.evictor.idle.Get().(*eviction)
	if x == nil {
		x = &eviction{e: e}
	}
	defer e.memory.evictor.idle.Put(x)
	var began time.Time
	failed := 0
	for n := 1; e.memory.over(); n++ {
		switch x.evict() {
		case evictNone:
			return roomNone
		case evictOne:
			failed = 0
		case evictFailed:
			failed++
		}
		late := false
		if n == 16 {
			began = time.Now()
		} else if n%16 == 0 {
			late = time.Since(began) >= e.memory.patience()
		}
		if late || failed == failures {
			e.evictLater()
			return roomLater
		}
	}
	return roomMade
}

// evictLater evicts in the background until the keys take no more than they
// may, or none is left.
func (e *Engine) evictLater() {
	v := &e.memory.evictor
	v.mu.Lock()
	defer v.mu.Unlock()
	v.again = true
	if v.running || v.stopped || e.master.Load() != nil {
		return
	}
	v.running = true
	v.wg.Go(func() {
		x := eviction{e: e}
		for v.more() {
			x.evictAll()
		}
	})
}

// evictAll evicts until the keys take no more than they may, or none is left.
func (x *eviction) evictAll() {
	for x.e.memory.over() && !x.e.closed.Load() {
		switch x.evict() {
		case evictNone:
			return
		case evictFailed:
			time.Sleep(time.Millisecond) // until others give their shards back
		case evictOne:
		}
	}
}

// more reports whether evictLater was called since the last time.
func (v *evictor) more() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running = v.again
	v.again = false
	return v.running
}

// shed evicts after the limit or the policy was changed by c.
func (e *Engine) shed(c *call) {
	if !e.memory.over() {
		return
	}
	if c.held.empty() {
		e.makeRoom()
	} else {
		e.evictLater() // when the transaction is over
	}
}

// An eviction is one caller's use of the evictor.
type eviction struct {
	e     *Engine
	c     call
	found []candidate
	busy  bool // a shard was passed by
}

// An evicted is the outcome of an attempt.
type evicted uint8

const (
	evictOne    evicted = iota
	evictNone           // no key may be given up
	evictFailed         // other calls hold the shards of all candidates
)

// evict gives up a key.
func (x *eviction) evict() evicted {
	p := x.e.memory.policy.Load()
	if p.choice == chooseNone || x.e.log != nil && x.e.log.Err() != nil {
		return evictNone
	}
	x.busy = false
	for range findAttempts {
		version, ok := x.find(p)
		if !ok && !x.busy {
			return evictNone
		} else if !ok {
			return evictFailed
		} else if len(x.found) == 0 {
			continue
		}
		best := x.found[0]
		if p.choice != chooseRandom {
			if best, ok = x.pooled(version); !ok {
				continue
			}
		}
		if x.giveUp(p, best) {
			return evictOne
		}
	}
	x.e.memory.evictor.recount()
	return evictFailed
}

// recount makes the next pick count the keys again.
func (v *evictor) recount() {
	v.mu.Lock()
	v.picks = 0
	v.mu.Unlock()
}

// pick returns a shard, each as likely as it has keys. It returns false when
// none has any.
func (x *eviction) pick(p *policy) (shard, version int, ok bool) {
	v := &x.e.memory.evictor
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.picks--; v.picks < 0 {
		x.count(p)
		v.picks = picksAtOnce
	}
	total := v.weights[shardCount-1]
	if total == 0 {
		v.picks = 0
		return 0, 0, false
	}
	at := rand.Uint64N(total)
	shard, _ = slices.BinarySearchFunc(v.weights[:], at, func(sum, at uint64) int {
		if sum > at {
			return 1
		}
		return -1
	})
	return shard, v.version, true
}

// count counts the keys of all shards that no other call holds.
func (x *eviction) count(p *policy) {
	v := &x.e.memory.evictor
	sum, last := uint64(0), uint64(0)
	for i := range x.e.shards {
		n := v.weights[i] - last
		last = v.weights[i]
		if sh := &x.e.shards[i]; sh.mu.TryLock() {
			n = uint64(sh.evictable(p)) //nolint:gosec // a length
			sh.mu.Unlock()
		} else {
			x.busy = true
		}
		sum += n
		v.weights[i] = sum
	}
}

// evictable is how many keys a policy may give up, of all databases.
func (sh *shard) evictable(p *policy) (n int) {
	for _, ks := range sh.dbs {
		n += ks.evictable(p)
	}
	return n
}

func (ks *keyspace) evictable(p *policy) int {
	switch {
	case ks == nil:
		return 0
	case p.volatile:
		return ks.expiring.len()
	}
	return ks.keys.len()
}

// find puts a few keys into x.found: of one shard, or of several that have few.
// It returns false when there are none anywhere.
func (x *eviction) find(p *policy) (version int, ok bool) {
	n := int(x.e.memory.samples.Load())
	if p.choice == chooseRandom {
		n = 1
	}
	x.found = x.found[:0]
	for range min(n, mostShards) {
		var i int
		if i, version, ok = x.pick(p); !ok {
			return version, false
		}
		if x.look(i, p, n-len(x.found)); len(x.found) == n {
			break
		}
	}
	return version, true
}

// look adds up to n keys of a shard to x.found.
func (x *eviction) look(i int, p *policy, n int) {
	sh := &x.e.shards[i]
	if !sh.tryLock() {
		x.busy = true
		return
	}
	defer sh.mu.Unlock()
	total := sh.evictable(p)
	if total == 0 {
		return
	}
	at := rand.IntN(total)
	for db, ks := range sh.dbs {
		if has := ks.evictable(p); at >= has {
			at -= has
			continue
		}
		x.sample(db, ks, at, p, n)
		return
	}
}

// sample looks at n keys of one database in one shard, from position at on for policies that keep
// to keys with a time to live.
func (x *eviction) sample(db int, ks *keyspace, at int, p *policy, n int) {
	add := func(it *item) {
		score, stamp := x.e.score(it, p)
		x.found = append(x.found, candidate{db, it.key, score, stamp})
	}
	switch {
	case p.choice == chooseSoon:
		for i := range min(n, ks.expiring.len()) {
			add(ks.expiring.at(i).v) // the earliest is in front, and others not far
		}
	case p.volatile:
		for i := range min(n, ks.expiring.len()) {
			add(ks.expiring.at((at + i) % ks.expiring.len()).v)
		}
	default:
		ks.keys.some(n, add)
	}
}

// score returns how good it is to evict a key, and a stamp that changes when the key is used.
func (e *Engine) score(it *item, p *policy) (score, stamp uint64) {
	access := it.val.access
	switch p.choice {
	case chooseIdle:
		return uint64(e.idle(access)), uint64(access)
	case chooseRare:
		// Of keys used as often, the one that was not used for longer goes.
		return uint64(255-e.count(access))<<16 | uint64((e.minutes()-access>>8)&0xffff), uint64(access)
	case chooseSoon:
		return ^uint64(it.val.expire), uint64(it.val.expire) //nolint:gosec // a time
	default:
		return 0, 0
	}
}

// pooled adds the sampled keys to the pool and takes the best candidate out of it.
func (x *eviction) pooled(version int) (best candidate, ok bool) {
	v := &x.e.memory.evictor
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.version != version {
		return best, false
	}
	for _, f := range x.found {
		v.offer(f)
	}
	if len(v.pool) == 0 {
		return best, false
	}
	last := len(v.pool) - 1
	best = v.pool[last]
	v.pool[last] = candidate{}
	v.pool = v.pool[:last]
	return best, true
}

// offer adds a candidate to the pool, which is in the order of the scores,
// unless it is full of better ones.
func (v *evictor) offer(f candidate) {
	for i := range v.pool {
		if v.pool[i].db == f.db && v.pool[i].key == f.key {
			v.pool = slices.Delete(v.pool, i, i+1)
			break
		}
	}
	at := 0
	for at < len(v.pool) && v.pool[at].score <= f.score {
		at++
	}
	if len(v.pool) < poolSize {
		v.pool = slices.Insert(v.pool, at, f)
	} else if at > 0 {
		copy(v.pool, v.pool[1:at])
		v.pool[at-1] = f
	}
}

// giveUp deletes a key, unless it was used or has gone since it was looked at.
func (x *eviction) giveUp(p *policy, f candidate) bool {
	key := view(f.key)
	i := shardOf(key)
	sh := &x.e.shards[i]
	if !sh.tryLock() {
		x.busy = true
		return false
	}
	c := &x.c
	c.e, c.db, c.held, c.now = x.e, f.db, shardSet{}, 0
	c.held.add(i)
	defer c.serveLater()
	defer sh.mu.Unlock()
	defer func() {
		c.settle()
		c.commit()
		if len(c.broadcast) > 0 {
			c.sendBroadcast()
		}
		if len(c.ready) > 0 {
			c.serve()
		}
	}()
	ks := sh.dbs[f.db]
	if ks == nil {
		return false
	}
	it := ks.keys.get(key)
	if it == nil || p.volatile && it.aux < 0 {
		return false
	}
	if _, stamp := x.e.score(it, p); stamp != f.stamp {
		return false
	}
	if it.val.expire != 0 && it.val.expire < c.time() {
		c.expireItem(sh, ks, it)
		return true
	}
	ks.keys.remove(key)
	c.detach(ks, it)
	x.e.stats.evicted.Add(1)
	c.touch(sh, f.db, key)
	c.notify(eventEvicted, "evicted", key)
	c.instead([]byte("DEL"), key)
	return true
}
