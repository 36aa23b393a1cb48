package engine

import (
	"bytes"
	"math/bits"
	"slices"
	"time"

	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A call is one execution of a command: its arguments, its reply so far, and
// which shards it holds. Handlers are functions of a call.
type call struct {
	e     *Engine
	s     *Session
	cmd   *command
	args  [][]byte
	w     []byte
	proto resp.Protocol
	db    int

	held      shardSet
	all       bool   // every shard is held
	home      *shard // the shard of homeKey, when the command has no other key, or is a script and all its keys are there
	homeKey   []byte
	lastShard *shard // the shard of lastKey, one of several keys: see cacheShard
	lastKey   []byte
	now       int64 // Unix ms, 0 before it is asked for
	us        int64 // the same in µs

	dirty   int        // changes made
	charges []charge   // keys whose size may have changed
	ready   []readyKey // keys that blocked commands may be waiting for
	effects effects    // commands to log, before args or instead of them
	logged  bool       // effects replaces args, even when it is empty
	touched [][]byte   // keys changed, for the Journal

	oom       bool       // there was too little memory when the command began
	try       bool       // don't wait for locks
	busy      bool       // the command did not run: another call holds a lock
	scripted  bool       // called by a script
	running   *scriptRun // the script, nil for none that can be stopped
	worked    int        // steps since the last checkInterrupt
	behind    []byte     // messages, to go behind the reply of a command that waited
	reads     bool       // a script's command reads
	noBlock   bool       // in a transaction or a script
	confirms  bool       // the reply is of subscriptions, which CLIENT REPLY leaves
	from      int        // where the reply begins in w
	roomy     int        // the size of the reply up to which outgrow is not called
	unfit     string     // why the reply of a script has no room
	broadcast [][]byte   // keys changed, for CLIENT TRACKING with BCAST
	only      []byte     // the only key to use, when a blocked command runs again
	wait      *Wait      // set by a command that has to wait
	after     func()     // see unlocked
	script    compiled   // that of EVAL or SCRIPT LOAD, compiled before any shard is locked
	keyBuf    []int

	began  time.Duration // reading of the clock, if weight says that the command is timed
	weight int64         // see weigh
}

type readyKey struct {
	db  int
	key string
}

// A shardSet is a set of shard numbers.
type shardSet [shardCount / 64]uint64

func (s *shardSet) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s *shardSet) has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }

func (s *shardSet) fill() {
	for i := range s {
		s[i] = ^uint64(0)
	}
}

// each calls f for the members in ascending order.
func (s *shardSet) each(f func(i int)) {
	for w, word := range s {
		for word != 0 {
			f(w<<6 + bits.TrailingZeros64(word))
			word &= word - 1
		}
	}
}

// minus returns the shards of s that are not in t.
func (s *shardSet) minus(t *shardSet) (d shardSet) {
	for i := range s {
		d[i] = s[i] &^ t[i]
	}
	return d
}

// only returns the one member of a set that has one.
func (s *shardSet) only() (i int, one bool) {
	n := 0
	for w, word := range s {
		if word != 0 {
			n += bits.OnesCount64(word)
			i = w<<6 + bits.TrailingZeros64(word)
		}
	}
	return i, n == 1
}

func (s *shardSet) empty() bool { return *s == shardSet{} }

func shardOf(key []byte) int { return int(keyslot.Of(key)) & (shardCount - 1) }

// shard returns the shard of key, which the call must hold.
func (c *call) shard(key []byte) *shard {
	if c.home != nil && string(key) == string(c.homeKey) {
		return c.home
	}
	if c.lastShard != nil && string(key) == string(c.lastKey) {
		return c.lastShard
	}
	i := shardOf(key)
	if !c.held.has(i) {
		panic("engine: a command used a key that it did not declare")
	}
	return &c.e.shards[i]
}

// cacheShard remembers the shard of key, an argument that the command is about to use several
// times.
func (c *call) cacheShard(key []byte) {
	c.lastShard = nil
	c.lastShard, c.lastKey = c.shard(key), key
}

func (c *call) time() int64 {
	if c.now == 0 {
		if c.now = 1; !c.e.loading {
			c.us = c.e.clock.Now().UnixMicro()
			c.now = c.us / 1000
		}
	}
	return c.now
}

// replays reports whether the call repeats what was done before or elsewhere. Then nothing expires by itself.
func (c *call) replays() bool { return c.e.loading || c.s != nil && c.s.replays }

// past reports whether a key or a field with this deadline is deleted at once.
func (c *call) past(at int64) bool { return at <= c.time() && !c.replays() }

// micros is time in µs.
func (c *call) micros() int64 {
	if ms := c.time(); c.us/1000 != ms {
		c.us = ms * 1000
	}
	return c.us
}

// findKeys leaves the positions of the command's keys in keyBuf. It reports
// false when the command needs all shards.
func (c *call) findKeys(cmd *command, args [][]byte) bool {
	if cmd.flags&(flagAllShards|flagEveryShard) != 0 && !cmd.narrow(args) {
		return false
	}
	if cmd.flags&flagScript != 0 && !c.keepsToKeys(cmd, args) {
		return false
	}
	c.keyBuf = cmd.keys(c.keyBuf[:0], args)
	return true
}

// narrow reports whether the arguments keep a command to the shards of its keys, although it may
// need every shard: SORT without a pattern, and INFO of a section that needs no keys.
func (cmd *command) narrow(args [][]byte) bool {
	switch cmd.Name {
	case "sort", "sort_ro":
		return !slices.ContainsFunc(args[2:], func(a []byte) bool { return bytes.IndexByte(a, '*') >= 0 })
	case "info":
		return len(args) > 1 && !slices.ContainsFunc(args[1:], func(a []byte) bool {
			return !is(a, "server") && !is(a, "cpu") && !is(a, "commandstats") && !is(a, "latencystats") && !is(a, "errorstats")
		})
	}
	return false
}

// lockKeys adds the shards of the command's keys to set. It reports false
// when the command needs all shards.
func (c *call) lockKeys(set *shardSet, cmd *command, args [][]byte) bool {
	if !c.findKeys(cmd, args) {
		return false
	}
	for _, i := range c.keyBuf {
		set.add(shardOf(args[i]))
	}
	return true
}

// execute locks, runs the handler and unlocks. A panic of the handler becomes
// an error reply.
func (c *call) execute() {
	if c.cmd.flags&flagOneKey != 0 {
		c.executeOn(c.args[1])
		return
	}
	all := !c.findKeys(c.cmd, c.args)
	if !all && len(c.keyBuf) == 1 {
		c.executeOn(c.args[c.keyBuf[0]])
		return
	}
	var set shardSet
	if all {
		set.fill()
		c.all = true
		if c.cmd.flags&(flagQuick|flagScript) == 0 {
			c.e.waker.wake()
		}
	} else {
		for _, i := range c.keyBuf {
			set.add(shardOf(c.args[i]))
		}
	}
	c.executeHolding(set)
}

// executeHolding is execute with at least the shards of set locked.
func (c *call) executeHolding(set shardSet) {
	from := len(c.w)
	if !c.lockServing(&set, func(keys [][]byte) [][]byte {
		for _, i := range c.keyBuf {
			keys = append(keys, c.args[i])
		}
		return keys
	}) {
		c.all = false
		c.notLocked()
		return
	}
	c.held = set
	if i, one := set.only(); one && c.cmd.flags&flagScript != 0 && len(c.keyBuf) > 0 {
		c.home, c.homeKey = &c.e.shards[i], c.args[c.keyBuf[0]]
	}
	if len(c.keyBuf) > 2 && !c.all {
		c.prefetch()
	}
	c.e.stats.commands.Add(1)
	defer func() {
		c.e.unlock(&set)
		c.released()
	}()
	defer c.settleSeen()
	defer c.recoverLocked(from)
	c.run()
}

// executeOn is execute for a command with one key.
func (c *call) executeOn(key []byte) {
	from := len(c.w)
	i := shardOf(key)
	sh := &c.e.shards[i]
	if !c.lockShard(sh) {
		c.notLocked()
		return
	}
	if len(sh.blocked) > 0 && c.mayServe() {
		var set shardSet
		if set.add(i); c.e.widen(&set, c.db, [][]byte{key}) {
			sh.mu.Unlock()
			c.findKeys(c.cmd, c.args)
			c.executeHolding(set)
			return
		}
	}
	if c.manyExpired(sh, key) {
		sh.mu.Unlock()
		if c.try {
			c.busy = true
			return
		}
		c.e.expireInSteps(i, c.db, key)
		if !c.lockShard(sh) {
			c.notLocked()
			return
		}
	}
	c.home, c.homeKey = sh, key
	c.held.add(i)
	sh.counters.commands++
	defer func() {
		sh.mu.Unlock()
		c.released()
	}()
	defer c.settleSeen()
	defer c.recoverLocked(from)
	c.run()
}

// settleSeen ends a command while its shards are locked. It has its own defer: the shards are
// unlocked even when it panics.
func (c *call) settleSeen() {
	c.settle()
	c.see()
}

// lockShard reports false when the call only tries, when it would wait for a slow script, and when the
// engine is closed.
func (c *call) lockShard(sh *shard) bool {
	switch {
	case c.try:
		return sh.tryLock()
	case c.s != nil && c.s.replays: // its master has not waited for our scripts
		sh.mu.Lock()
		if sh.mu.slow == engineClosed {
			sh.mu.Unlock()
			return false
		}
		return true
	}
	return sh.lockUnlessSlow()
}

// notLocked is for a call that could not have the locks that it needs.
func (c *call) notLocked() {
	switch {
	case c.try:
		c.busy = true
	case c.e.closed.Load():
		c.err(closed)
	default:
		c.err(c.e.scripts.busyWith())
	}
}

// run calls the handler, and then serves, notifies and logs the changes.
func (c *call) run() {
	if c.e.monitors.n.Load() > 0 {
		c.monitor(c.args) // in front of a script's commands, and in the order in which they take effect
	}
	if c.cmd.flags&flagWrite != 0 && c.e.master.Load() != nil { // it may have come since the command was let in
		if why := c.s.readOnly(c.cmd); why != "" {
			c.err(why)
			return
		}
	}
	c.handle()
	if c.dirty > 0 {
		if c.home != nil {
			c.home.counters.dirty += int64(c.dirty)
		} else {
			c.e.stats.dirty.Add(int64(c.dirty))
		}
	}
	if c.dirty > 0 || len(c.effects.commands) > 0 {
		c.log()
	}
	if c.s.tracker.Load() != nil {
		c.remember()
	}
	if len(c.broadcast) > 0 {
		c.sendBroadcast()
	}
	if len(c.ready) > 0 {
		c.serve()
	}
}

// released is called when no shard is held any more.
func (c *call) released() {
	c.lastShard, c.lastKey = nil, nil
	c.held, c.all, c.home, c.homeKey = shardSet{}, false, nil, nil
	if len(c.ready) > 0 {
		c.serveLater()
	}
	if f := c.after; f != nil {
		c.after = nil
		f()
	}
}

// unlocked runs f, which makes the reply, after the shards are unlocked. In a transaction
// or a script it runs f at once: these hold their shards to their end.
func (c *call) unlocked(f func()) {
	if c.noBlock {
		f()
	} else {
		c.after = f
	}
}
