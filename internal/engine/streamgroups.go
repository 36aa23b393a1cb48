package engine

import "github.com/redoubt-go/redoubt/internal/stream"

// stamp is the time at which a consumer was seen. Repeating the log counts as that, as in Redis.
func (c *call) stamp() int64 {
	if c.replays() {
		return c.e.clock.Now().UnixMilli()
	}
	return c.time()
}

// consumer returns a consumer of a group, which it makes if there is none. made says that it did.
func (c *call) consumer(key []byte, g *stream.Group, name []byte) (consumer *stream.Consumer, made bool) {
	if consumer = g.Consumer(name); consumer != nil {
		consumer.SeenTime = c.stamp()
		return consumer, false
	}
	consumer = g.AddConsumer(name, c.stamp())
	c.modified(key)
	c.notify(eventStream, "xgroup-createconsumer", key)
	return consumer, true
}

// mostClaims is how many IDs an XCLAIM in the log has at most.
const mostClaims = 1000

// logClaims logs pending entries as they are now.
func (c *call) logClaims(key, group []byte, g *stream.Group, claims []stream.Pending) {
	if c.journaled() {
		claimCommands(key, group, g.LastID(), claims, func(args [][]byte) { c.instead(args...) })
	}
}

// claimCommands passes to emit the XCLAIMs that make pending entries, one for all in a row with the same
// consumer, time and count. Repeating them gives the same pending entries. last is the last ID of the group.
func claimCommands(key, group []byte, last stream.ID, claims []stream.Pending, emit func(args [][]byte)) {
	for len(claims) > 0 {
		first, n := claims[0], 1
		for n < min(len(claims), mostClaims) && claims[n].Consumer == first.Consumer && claims[n].Time == first.Time && claims[n].Count == first.Count {
			n++
		}
		args := make([][]byte, 0, n+13)
		args = append(args, []byte("XCLAIM"), key, group, []byte(first.Consumer.Name()), []byte("0"))
		for _, p := range claims[:n] {
			args = append(args, p.ID.Append(nil))
		}
		emit(append(args, []byte("TIME"), appendInt(nil, first.Time), []byte("RETRYCOUNT"), appendInt(nil, int64(first.Count)), //nolint:gosec // it counts from 1
			[]byte("FORCE"), []byte("JUSTID"), []byte("LASTID"), last.Append(nil)))
		claims = claims[n:]
	}
}

// logGroupID logs how far a group has read.
func (c *call) logGroupID(key, group []byte, g *stream.Group) {
	if c.journaled() {
		c.instead([]byte("XGROUP"), []byte("SETID"), key, group, g.LastID().Append(nil), []byte("ENTRIESREAD"), appendInt(nil, g.EntriesRead()))
	}
}

// logAcks logs that pending entries are gone.
func (c *call) logAcks(key, group []byte, ids []stream.ID) {
	if len(ids) == 0 || !c.journaled() {
		return
	}
	args := [][]byte{[]byte("XACK"), key, group}
	for _, id := range ids {
		args = append(args, id.Append(nil))
	}
	c.instead(args...)
}

// groupOf looks up the stream args[1] and its group args[2]. It has answered with an error when ok is false.
func (c *call) groupOf() (s *stream.Stream, g *stream.Group, ok bool) {
	if s, ok = c.getStream(c.read(c.args[1])); !ok {
		return nil, nil, false
	}
	if s != nil {
		g = s.Group(c.args[2])
	}
	if g == nil {
		c.err("NOGROUP No such key '" + string(cText(c.args[1])) + "' or consumer group '" + string(cText(c.args[2])) + "'")
		return nil, nil, false
	}
	return s, g, true
}

// groupOptions are the options of XGROUP CREATE and SETID.
type groupOptions struct {
	make bool // MKSTREAM
	read int64
}

func (c *call) groupArgs(creates bool) (o groupOptions, ok bool) {
	o.read = stream.Unknown
	for i := 5; i < len(c.args); i++ {
		switch a := c.args[i]; {
		case creates && is(a, "mkstream"):
			o.make = true
		case is(a, "entriesread") && i+1 < len(c.args):
			i++
			if o.read, ok = c.argInt(c.args[i]); !ok {
				return o, false
			}
			if o.read < 0 && o.read != stream.Unknown {
				c.err("ERR value for ENTRIESREAD must be positive or -1")
				return o, false
			}
		default:
			c.unknownForm()
			return o, false
		}
	}
	return o, true
}

// groupStream looks up the stream of an XGROUP command. It has answered with an error when ok is
// false. The stream may be nil if make is set.
func (c *call) groupStream(mayMake bool) (s *stream.Stream, it *item, ok bool) {
	it = c.write(c.args[2])
	if s, ok = c.getStream(it); !ok {
		return nil, nil, false
	}
	if s == nil && !mayMake {
		c.err("ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.")
		return nil, nil, false
	}
	return s, it, true
}

// group looks up the stream and the group of an XGROUP command that needs both.
func (c *call) group() (s *stream.Stream, g *stream.Group, ok bool) {
	if s, _, ok = c.groupStream(false); !ok {
		return nil, nil, false
	}
	if g = s.Group(c.args[3]); g == nil {
		c.noConsumerGroup(c.args[2], c.args[3])
		return nil, nil, false
	}
	return s, g, true
}

func (c *call) noConsumerGroup(key, group []byte) {
	c.err("NOGROUP No such consumer group '" + string(cText(group)) + "' for key name '" + string(cText(key)) + "'")
}

func cmdXgroupCreate(c *call) {
	o, ok := c.groupArgs(true)
	if !ok {
		return
	}
	s, _, ok := c.groupStream(o.make)
	if !ok {
		return
	}
	if len(c.args) > 8 {
		c.unknownForm()
		return
	}
	last := stream.ID{}
	switch {
	case string(cText(c.args[4])) != "$":
		if last, ok = c.argID(c.args[4]); !ok {
			return
		}
	case s != nil:
		last = s.LastID()
	}
	key := c.args[2]
	if s != nil && s.Group(c.args[3]) != nil {
		c.err("BUSYGROUP Consumer Group name already exists")
		return
	}
	if s == nil {
		s = asStream(c.create(key, newStream(new(stream.Stream))))
		c.touch(c.shard(key), c.db, key)
	}
	s.AddGroup(c.args[3], last, o.read)
	c.ok()
	c.modified(key)
	c.notify(eventStream, "xgroup-create", key)
}

func cmdXgroupSetid(c *call) {
	o, ok := c.groupArgs(false)
	if !ok {
		return
	}
	s, g, ok := c.group()
	if !ok {
		return
	}
	if len(c.args) > 7 {
		c.unknownForm()
		return
	}
	last := s.LastID()
	if string(cText(c.args[4])) != "$" {
		if last, ok = parseStreamID(c.args[4], 0, false); !ok {
			c.err(errStreamID)
			return
		}
	}
	g.SetID(last, o.read)
	c.ok()
	c.modified(c.args[2])
	c.notify(eventStream, "xgroup-setid", c.args[2])
}

func cmdXgroupDestroy(c *call) {
	s, it, ok := c.groupStream(false)
	if !ok {
		return
	}
	if !s.RemoveGroup(c.args[3]) {
		c.int(0)
		return
	}
	key := c.args[2]
	c.int(1)
	c.modified(key)
	c.notify(eventStream, "xgroup-destroy", key)
	c.signal(c.shard(key), it) // XREADGROUP waits no longer
}

func cmdXgroupCreateconsumer(c *call) {
	_, g, ok := c.group()
	if !ok {
		return
	}
	if g.Consumer(c.args[4]) != nil {
		c.int(0)
		return
	}
	c.consumer(c.args[2], g, c.args[4])
	c.int(1)
}

func cmdXgroupDelconsumer(c *call) {
	_, g, ok := c.group()
	if !ok {
		return
	}
	consumer := g.Consumer(c.args[4])
	if consumer == nil {
		c.int(0)
		return
	}
	c.int(int64(g.RemoveConsumer(consumer)))
	c.modified(c.args[2])
	c.notify(eventStream, "xgroup-delconsumer", c.args[2])
}

func cmdXgroupHelp(c *call) {
	c.helpLines(
		"CREATE <key> <groupname> <id|$> [option]",
		"    Create a new consumer group. Options are:",
		"    * MKSTREAM",
		"      Create the empty stream if it does not exist.",
		"    * ENTRIESREAD entries_read",
		"      Set the group's entries_read counter (internal use).",
		"CREATECONSUMER <key> <groupname> <consumer>",
		"    Create a new consumer in the specified group.",
		"DELCONSUMER <key> <groupname> <consumer>",
		"    Remove the specified consumer.",
		"DESTROY <key> <groupname>",
		"    Remove the specified group.",
		"SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
		"    Set the current group ID and entries_read counter.",
	)
}

func cmdXack(c *call) {
	key := c.args[1]
	s, ok := c.getStream(c.read(key))
	if !ok {
		return
	}
	var g *stream.Group
	if s != nil {
		g = s.Group(c.args[2])
	}
	if g == nil {
		c.int(0)
		return
	}
	ids, ok := c.argIDs(c.args[3:])
	if !ok {
		return
	}
	n := int64(0)
	for _, id := range ids {
		if g.Remove(id) {
			n++
			c.modified(key)
		}
	}
	c.int(n)
}

// pendingOptions are the arguments of XPENDING behind the group.
type pendingOptions struct {
	from, to stream.ID
	count    int64
	idle     int64
	consumer []byte // nil for all
}

func (c *call) pendingArgs() (o pendingOptions, ok bool) {
	n := len(c.args)
	if n < 6 || n > 9 {
		c.syntax()
		return o, false
	}
	at := 3
	if is(c.args[3], "idle") {
		if o.idle, ok = c.argInt(c.args[4]); !ok {
			return o, false
		}
		if n < 8 {
			c.syntax()
			return o, false
		}
		at = 5
	}
	if o.count, ok = c.argInt(c.args[at+2]); !ok {
		return o, false
	}
	o.count = max(o.count, 0)
	if o.from, o.to, ok = c.argIDRange(c.args[at], c.args[at+1]); !ok {
		return o, false
	}
	if at+3 < n {
		o.consumer = c.args[at+3]
	}
	return o, true
}

func cmdXpending(c *call) {
	var o pendingOptions
	ok := false
	if len(c.args) > 3 {
		if o, ok = c.pendingArgs(); !ok {
			return
		}
	}
	_, g, ok := c.groupOf()
	switch {
	case !ok:
	case len(c.args) == 3:
		c.pendingSummary(g)
	default:
		c.pendingList(g, &o)
	}
}

func (c *call) pendingSummary(g *stream.Group) {
	c.array(4)
	c.int(int64(g.Pending()))
	first, ok := g.FirstPending()
	if !ok {
		c.null()
		c.null()
		c.nullArray()
		return
	}
	last, _ := g.LastPending()
	c.streamID(first.ID)
	c.streamID(last.ID)
	start, n := c.begin(), 0
	g.EachConsumer(func(consumer *stream.Consumer) bool {
		c.work(stepsPerElement)
		if p := consumer.Pending(); p > 0 {
			c.array(2)
			c.str(consumer.Name())
			c.bulk(appendInt(nil, int64(p)))
			n++
		}
		return true
	})
	c.end(start, n)
}

func (c *call) pendingList(g *stream.Group, o *pendingOptions) {
	each := g.EachPending
	if o.consumer != nil {
		consumer := g.Consumer(o.consumer)
		if consumer == nil {
			c.array(0)
			return
		}
		each = consumer.EachPending
	}
	start, n, now := c.begin(), int64(0), c.time()
	if o.count > 0 {
		each(o.from, o.to, func(p stream.Pending) bool {
			c.work(stepsPerElement)
			if o.idle != 0 && now-p.Time < o.idle {
				return true
			}
			c.array(4)
			c.streamID(p.ID)
			c.str(p.Consumer.Name())
			c.int(max(now-p.Time, 0))
			c.int(int64(p.Count)) //nolint:gosec // as Redis prints it
			n++
			return n < o.count
		})
	}
	c.end(start, int(n))
}
