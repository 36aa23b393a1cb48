package engine

import "github.com/redoubt-go/redoubt/internal/stream"

// infoStream looks up the stream of an XINFO command. It is nil when an error was written.
func (c *call) infoStream() *stream.Stream {
	it := c.read(c.args[2])
	if it == nil {
		c.err(errNoKey)
		return nil
	}
	s, _ := c.getStream(it)
	return s
}

// known replies with a number that may be unknown.
func (c *call) known(n int64, ok bool) {
	if ok {
		c.int(n)
	} else {
		c.null()
	}
}

func cmdXinfoConsumers(c *call) {
	s := c.infoStream()
	if s == nil {
		return
	}
	g := s.Group(c.args[3])
	if g == nil {
		c.noConsumerGroup(c.args[2], c.args[3])
		return
	}
	now := c.time()
	c.array(g.Consumers())
	g.EachConsumer(func(consumer *stream.Consumer) bool {
		c.work(stepsPerElement)
		c.mapHead(3)
		c.str("name")
		c.str(consumer.Name())
		c.str("pending")
		c.int(int64(consumer.Pending()))
		c.str("idle")
		c.int(max(now-consumer.SeenTime, 0))
		return true
	})
}

func cmdXinfoGroups(c *call) {
	s := c.infoStream()
	if s == nil {
		return
	}
	c.array(s.Groups())
	s.EachGroup(func(g *stream.Group) bool {
		c.work(stepsPerElement)
		c.mapHead(6)
		c.str("name")
		c.str(g.Name())
		c.str("consumers")
		c.int(int64(g.Consumers()))
		c.str("pending")
		c.int(int64(g.Pending()))
		c.groupPosition(s, g)
		return true
	})
}

// groupPosition replies with how far a group has read.
func (c *call) groupPosition(s *stream.Stream, g *stream.Group) {
	c.str("last-delivered-id")
	c.streamID(g.LastID())
	c.str("entries-read")
	c.known(g.EntriesRead(), g.EntriesRead() != stream.Unknown)
	c.str("lag")
	c.known(s.Lag(g))
}

func cmdXinfoStream(c *call) {
	s := c.infoStream()
	if s == nil {
		return
	}
	count, n := int64(10), len(c.args)
	if n > 3 {
		if n != 4 && n != 6 || !is(c.args[3], "full") || n == 6 && !is(c.args[4], "count") {
			c.unknownForm()
			return
		}
		if n == 6 {
			var ok bool
			if count, ok = c.argInt(c.args[5]); !ok {
				return
			}
			if count < 0 {
				count = 10
			}
		}
	}
	if n == 3 {
		c.mapHead(10)
	} else {
		c.mapHead(9)
	}
	c.str("length")
	c.int(int64(s.Len()))
	c.str("radix-tree-keys")
	c.int(int64(s.IndexKeys()))
	c.str("radix-tree-nodes")
	c.int(int64(s.IndexNodes()))
	c.str("last-generated-id")
	c.streamID(s.LastID())
	c.str("max-deleted-entry-id")
	c.streamID(s.MaxDeletedID())
	c.str("entries-added")
	c.int(int64(s.EntriesAdded())) //nolint:gosec // as Redis prints it
	c.str("recorded-first-entry-id")
	c.streamID(s.FirstID())
	if n > 3 {
		c.infoFull(s, count)
		return
	}
	c.str("groups")
	c.int(int64(s.Groups()))
	c.str("first-entry")
	c.edge(s.Range(stream.ID{}, stream.Largest))
	c.str("last-entry")
	c.edge(s.RangeBack(stream.ID{}, stream.Largest))
}

// edge replies with the first entry of a cursor, or nil.
func (c *call) edge(at *stream.Cursor) {
	if c.nextEntry(at) {
		c.streamEntry(at)
	} else {
		c.null()
	}
}

// infoFull is the part of XINFO STREAM FULL that has entries and groups, at most count of each, all
// when it is 0.
func (c *call) infoFull(s *stream.Stream, count int64) {
	c.str("entries")
	c.streamEntries(s.Range(stream.ID{}, stream.Largest), count)
	c.str("groups")
	c.array(s.Groups())
	s.EachGroup(func(g *stream.Group) bool {
		c.mapHead(7)
		c.str("name")
		c.str(g.Name())
		c.groupPosition(s, g)
		c.str("pel-count")
		c.int(int64(g.Pending()))
		c.str("pending")
		c.infoPending(g.EachPending, count, true)
		c.str("consumers")
		c.array(g.Consumers())
		g.EachConsumer(func(consumer *stream.Consumer) bool {
			c.mapHead(4)
			c.str("name")
			c.str(consumer.Name())
			c.str("seen-time")
			c.int(consumer.SeenTime)
			c.str("pel-count")
			c.int(int64(consumer.Pending()))
			c.str("pending")
			c.infoPending(consumer.EachPending, count, false)
			return true
		})
		return true
	})
}

// infoPending replies with pending entries, and with their consumers if asked for.
func (c *call) infoPending(each func(from, to stream.ID, f func(stream.Pending) bool), count int64, consumers bool) {
	start, n := c.begin(), int64(0)
	each(stream.ID{}, stream.Largest, func(p stream.Pending) bool {
		c.work(stepsPerElement)
		c.array(3 + int(b2i(consumers)))
		c.streamID(p.ID)
		if consumers {
			c.str(p.Consumer.Name())
		}
		c.int(p.Time)
		c.int(int64(p.Count)) //nolint:gosec // as Redis prints it
		n++
		return n != count
	})
	c.end(start, int(n))
}

func cmdXinfoHelp(c *call) {
	c.helpLines(
		"CONSUMERS <key> <groupname>",
		"    Show consumers of <groupname>.",
		"GROUPS <key>",
		"    Show the stream consumer groups.",
		"STREAM <key> [FULL [COUNT <count>]",
		"    Show information about the stream.",
	)
}
