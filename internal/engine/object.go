package engine

import "github.com/redoubt-go/redoubt/internal/stream"

// encoding names how Redis 7.0 would store the value, which is also how it is
// stored here, but for small sets of words and for lists.
func (v *value) encoding() string {
	if v.obj == nil {
		switch _, ok := parseInt(v.str); {
		case v.raw || len(v.str) > 44:
			return "raw"
		case ok && !v.plain:
			return "int"
		}
		return "embstr"
	}
	switch o := v.obj.v.(type) {
	case *hash:
		if o.big == nil {
			return "listpack"
		}
		return "hashtable"
	case *set:
		if o.isInts() {
			return "intset"
		}
		return "hashtable"
	case *zset:
		if !o.large() {
			return "listpack"
		}
		return "skiplist"
	case *stream.Stream:
		return "stream"
	}
	return "quicklist"
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
	if n, ok := parseInt(it.val.str); it.val.obj == nil && ok && !it.val.raw && n >= 0 && n < 10000 && !c.e.memory.sharesNoValues() {
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
