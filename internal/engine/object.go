package engine

// encoding names how Redis 7.0 would store the value, which is also how it is
// stored here, but for small sets of words and for lists.
func (v *value) encoding() string {
	switch v.form {
	case formString, formRaw, formPlain:
		switch _, ok := parseInt(v.bytes()); {
		case v.form == formRaw || v.n > 44:
			return "raw"
		case ok && v.form != formPlain:
			return "int"
		}
		return "embstr"
	case formPackedHash, formPackedZset:
		return "listpack"
	case formHash:
		if v.asHash().many() == nil {
			return "listpack"
		}
		return "hashtable"
	case formInts16, formInts32, formInts64:
		return "intset"
	case formWords, formSet:
		return "hashtable"
	case formZset:
		return "skiplist"
	case formStream:
		return "stream"
	default:
		return "quicklist"
	}
}

// object looks up the key of an OBJECT command without touching it.
func (c *call) object() *item {
	it := c.peek(c.args[2])
	if it == nil {
		c.null()
	}
	return it
}

func cmdObjectEncoding(c *call) {
	if it := c.object(); it != nil {
		c.str(it.val.encoding())
	}
}

func cmdObjectRefcount(c *call) {
	it := c.object()
	if it == nil {
		return
	}
	if n, ok := parseInt(it.val.bytes()); it.val.kind() == kindString && ok && it.val.form != formRaw && n >= 0 && n < 10000 && !c.e.memory.sharesNoValues() {
		c.int(1<<31 - 1) // Redis shares small integers
		return
	}
	c.int(1)
}

func cmdObjectIdletime(c *call) {
	if it := c.object(); it != nil {
		if c.e.memory.counts.Load() {
			c.err("ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
			return
		}
		c.int(int64(c.e.idle(it.val.access)) / ticksPerSecond)
	}
}

func cmdObjectFreq(c *call) {
	if it := c.object(); it != nil {
		if c.e.memory.counts.Load() {
			c.int(int64(c.e.count(it.val.access)))
			return
		}
		c.err("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
	}
}

func cmdMemoryUsage(c *call) {
	it := c.peek(c.args[2])
	if it == nil {
		c.null()
		return
	}
	c.int(footprint(it))
}
