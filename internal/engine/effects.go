package engine

// effects are the commands that repeat the changes of a call, in order. A SELECT stands where the
// database changes.
type effects struct {
	db, at   int // the databases of the first command and of the last
	commands [][][]byte
	bytes    int
	reserved int  // bytes reserved from the memory of all scripts
	lasting  bool // there are changes beside expiries, which repeat by themselves
}

func (f *effects) add(db int, args [][]byte) {
	f.bytes += bytesOf(args)
	switch {
	case len(f.commands) == 0:
		f.db, f.at = db, db
	case db != f.at:
		f.commands = append(f.commands, [][]byte{[]byte("SELECT"), appendInt(nil, int64(db))})
		f.at = db
	}
	f.commands = append(f.commands, args)
}

// join adds the effects of a call inside of this one.
func (f *effects) join(g *effects) {
	if len(g.commands) == 0 {
		return
	}
	bytes := f.bytes + g.bytes
	f.reserved, g.reserved = f.reserved+g.reserved, 0
	f.add(g.db, g.commands[0])
	f.commands = append(f.commands, g.commands[1:]...)
	f.at, f.bytes, f.lasting = g.at, bytes, f.lasting || g.lasting
}

// reset forgets the effects and keeps the memory.
func (f *effects) reset() {
	clear(f.commands)
	f.commands, f.bytes, f.lasting = f.commands[:0], 0, false
}

// change adds the effect of a command.
func (f *effects) change(db int, args [][]byte) {
	f.lasting = true
	f.add(db, args)
}

// journaled reports whether a log or a journal records changes.
func (c *call) journaled() bool {
	return (c.e.log != nil || c.e.replication.on.Load() || c.e.opts.Journal != nil) && !c.e.loading
}

// instead logs another command in place of the one that the client sent.
func (c *call) instead(args ...[]byte) {
	c.logged = true
	if c.journaled() {
		c.effects.change(c.db, args)
	}
}

// lapse logs the expiry of a key, before the effect of the command. Replies don't wait until it is
// on disk: after a power cut the key is there again, and expires again.
func (c *call) lapse(args ...[]byte) {
	if c.journaled() {
		c.effects.add(c.db, args)
	}
}

// settleEffects completes the effects: a command that has set none repeats itself.
func (c *call) settleEffects() {
	if c.dirty > 0 && !c.logged {
		c.effects.change(c.db, c.args)
	}
}

// log hands the call's changes to the log and to the journal. Changes inside a transaction wait for
// its end.
func (c *call) log() {
	if !c.journaled() || c.s != nil && c.s.executing {
		return
	}
	c.settleEffects()
	c.commit()
}

// commit logs the effects as one. The shards that they touched are held.
func (c *call) commit() {
	f := &c.effects
	if len(f.commands) > 0 {
		if j := c.e.opts.Journal; j != nil {
			j.Append(Effect{DB: f.db, Commands: f.commands, Keys: c.touched})
		}
		if c.e.replication.on.Load() {
			c.e.replication.append(f.db, f.commands)
		}
		if c.e.log != nil {
			end := c.e.log.Append(f.db, f.commands)
			if c.e.strict && f.lasting {
				c.eachHeld(func(sh *shard) { sh.saved = end })
			}
		}
	}
	c.releaseEffects()
	f.reset()
	c.touched, c.logged, c.dirty = nil, false, 0
}

// freeEffects is how many bytes of effects a script may gather that are not reserved.
const freeEffects = 256 << 10

// reserveEffects counts bytes of a script's effects in the memory of all scripts. It reports
// whether there is room.
func (c *call) reserveEffects(bytes int) bool {
	if !c.s.executing { // effects inside a transaction wait for its end
		bytes -= freeEffects
	}
	n := bytes - c.effects.reserved
	if n <= 0 {
		return true
	}
	if !c.e.lua.Reserve(n) {
		return false
	}
	c.effects.reserved += n
	return true
}

// countEffects is reserveEffects for effects that exist already, which may be larger than known
// when the command began.
func (c *call) countEffects() {
	for bytes := c.effects.bytes; !c.reserveEffects(bytes); bytes /= 2 { // if that is too much, half of it
	}
}

func (c *call) releaseEffects() {
	if n := c.effects.reserved; n > 0 {
		c.e.lua.Release(n)
		c.effects.reserved = 0
	}
}

func (c *call) eachHeld(f func(*shard)) {
	if c.home != nil {
		f(c.home)
		return
	}
	c.held.each(func(i int) { f(&c.e.shards[i]) })
}

// logState logs the whole value of key instead of the command, whose result can't be repeated.
func (c *call) logState(key []byte) {
	c.logged = true
	if !c.journaled() {
		return
	}
	c.effects.change(c.db, [][]byte{[]byte("DEL"), key})
	ks := c.shard(key).dbs[c.db]
	if ks == nil {
		return
	}
	if it := ks.keys.get(key); it != nil {
		dump(it, func(args [][]byte) { c.effects.add(c.db, cloneArgs(args)) })
	}
}

// logPanicked is called when a handler has panicked. Nobody knows how much of the command was done,
// so it logs the state of the command's keys. It is called for each command of a script. A command
// that was stopped has changed nothing.
func (c *call) logPanicked(r any) {
	if _, ok := r.(stopped); ok && c.dirty == 0 || c.cmd.flags&flagWrite == 0 {
		return
	}
	for _, i := range c.cmd.keys(nil, c.args) {
		key := c.args[i]
		if ks := c.shard(key).dbs[c.db]; ks != nil {
			if it := ks.keys.get(key); it != nil && it.val.empty() {
				c.remove(key) // it was made, and not yet filled
			}
		}
		c.logState(key)
	}
}
