package engine

import (
	"slices"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/stream"
)

const (
	errStreamGone = "UNBLOCKED the stream key no longer exists"
	errGroupGone  = "NOGROUP the consumer group this client was blocked on no longer exists"
)

// servedCount is how many entries a command that has waited gets without COUNT.
const servedCount = 1000

// readOptions are the options of XREAD and XREADGROUP.
type readOptions struct {
	blocks          bool
	timeout         time.Duration
	count           int64 // 0 for all
	noAck           bool
	group, consumer []byte // not nil for XREADGROUP
	at              int    // the argument with the first key
	n               int    // of the keys
}

func (o *readOptions) key(c *call, i int) []byte { return c.args[o.at+i] }
func (o *readOptions) id(c *call, i int) []byte  { return c.args[o.at+o.n+i] }

// A streamRead is what a command reads from one stream.
type streamRead struct {
	key     []byte
	s       *stream.Stream
	g       *stream.Group // nil for XREAD
	after   stream.ID     // entries above it
	history bool          // only entries that the consumer has got before
}

// A delivery is what XREADGROUP changes when it replies with entries of a stream.
type delivery struct {
	streamRead

	ids []stream.ID
}

func cmdXread(c *call)      { c.xread(false) }
func cmdXreadgroup(c *call) { c.xread(true) }

func (c *call) xread(grouped bool) {
	if grouped {
		c.logged = true // what it changes is logged as other commands
	}
	o, ok := c.readArgs(grouped)
	if !ok {
		return
	}
	if c.only != nil {
		c.serveRead(&o)
		return
	}
	reads, ok := c.findReads(&o)
	if !ok || c.replyReads(&o, reads) {
		return
	}
	if !o.blocks {
		c.nullArray()
		return
	}
	args := c.args
	c.args = slices.Clone(args)
	if !grouped { // the command that runs again must not take $ for a later ID
		for i := range reads {
			c.args[o.at+o.n+i] = reads[i].after.Append(nil)
		}
	}
	c.block(args[o.at:o.at+o.n], o.timeout, resp.AppendNullArray(nil, c.proto))
	c.args = args
}

// readArgs reads the arguments up to the keys. It has answered with an error when ok is false.
func (c *call) readArgs(grouped bool) (o readOptions, ok bool) {
	for i := 1; i < len(c.args) && o.at == 0; i++ {
		more := len(c.args) - 1 - i
		switch a := c.args[i]; {
		case more > 0 && is(a, "block"):
			if c.scripted {
				c.err("ERR " + string(cText(c.args[0])) + " command is not allowed with BLOCK option from scripts")
				return o, false
			}
			i++
			if o.timeout, ok = c.argMillis(c.args[i]); !ok {
				return o, false
			}
			o.blocks = true
		case more > 0 && is(a, "count"):
			i++
			if o.count, ok = c.argInt(c.args[i]); !ok {
				return o, false
			}
			o.count = max(o.count, 0)
		case more > 0 && is(a, "streams"):
			if more%2 != 0 {
				c.err("ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.")
				return o, false
			}
			o.at, o.n = i+1, more/2
		case more > 1 && is(a, "group"):
			if !grouped {
				c.err("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.")
				return o, false
			}
			o.group, o.consumer = c.args[i+1], c.args[i+2]
			i += 2
		case is(a, "noack"):
			if !grouped {
				c.err("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.")
				return o, false
			}
			o.noAck = true
		default:
			c.syntax()
			return o, false
		}
	}
	switch {
	case o.at == 0:
		c.syntax()
		return o, false
	case grouped && o.group == nil:
		c.err("ERR Missing GROUP option for XREADGROUP")
		return o, false
	}
	return o, true
}

// argMillis reads how long to block, in milliseconds. 0 is for ever.
func (c *call) argMillis(arg []byte) (time.Duration, bool) {
	n, ok := parseInt(arg)
	switch {
	case !ok:
		c.err("ERR timeout is not an integer or out of range")
		return 0, false
	case n < 0:
		c.err("ERR timeout is negative")
		return 0, false
	}
	return longest(n), true
}

// argAfter reads the ID behind which to read. It is Largest for >.
func (c *call) argAfter(arg []byte, s *stream.Stream, grouped bool) (id stream.ID, ok bool) {
	switch string(cText(arg)) {
	case "$":
		if grouped {
			c.err("ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.")
			return id, false
		}
		if s != nil {
			id = s.LastID()
		}
		return id, true
	case ">":
		if !grouped {
			c.err("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.")
			return id, false
		}
		return stream.Largest, true
	}
	return c.argID(arg)
}

// findReads looks up the streams. It has answered with an error when ok is false.
func (c *call) findReads(o *readOptions) (reads []streamRead, ok bool) {
	reads = make([]streamRead, o.n)
	for i := range reads {
		r := &reads[i]
		r.key = o.key(c, i)
		if r.s, ok = c.getStream(c.read(r.key)); !ok {
			return nil, false
		}
		if o.group != nil {
			if r.s != nil {
				r.g = r.s.Group(o.group)
			}
			if r.g == nil {
				c.err("NOGROUP No such key '" + string(cText(r.key)) + "' or consumer group '" + string(cText(o.group)) + "' in XREADGROUP with GROUP option")
				return nil, false
			}
		}
		if r.after, ok = c.argAfter(o.id(c, i), r.s, o.group != nil); !ok {
			return nil, false
		}
		r.history = r.g != nil && r.after != stream.Largest
	}
	return reads, true
}

// replyReads replies with the entries of the streams that have some. It reports whether any has. It
// changes nothing before the reply is complete, which may have no room.
func (c *call) replyReads(o *readOptions, reads []streamRead) bool {
	start, n := c.begin(), 0
	var deliveries []delivery
	pending := map[*stream.Group]struct{}{}
	for _, r := range reads {
		if r.s == nil {
			continue
		}
		if _, twice := pending[r.g]; twice {
			deliveries = c.deliver(o, deliveries)
			clear(pending)
		}
		if r.g != nil && !r.history {
			r.after = r.g.LastID()
		}
		if top, ok := r.s.TopID(); !r.history && (!ok || !r.after.Less(top)) {
			continue
		}
		n++
		if !c.isRESP3() {
			c.array(2)
		}
		d := c.replyRead(o, r)
		if r.g != nil {
			deliveries = append(deliveries, d)
			pending[r.g] = struct{}{}
		}
	}
	if n == 0 {
		return false
	}
	if c.isRESP3() {
		c.endMap(start, n)
	} else {
		c.end(start, n)
	}
	c.deliver(o, deliveries)
	return true
}

// replyRead replies with the key of a stream and its entries.
func (c *call) replyRead(o *readOptions, r streamRead) delivery {
	c.bulk(r.key)
	d := delivery{streamRead: r}
	from, _ := r.after.Next() // Largest is never read behind
	if r.history {
		c.replyHistory(o, &d, from)
		return d
	}
	start, n := c.begin(), int64(0)
	for at := r.s.Range(from, stream.Largest); (o.count == 0 || n < o.count) && c.nextEntry(at); n++ {
		c.streamEntry(at)
		if r.g != nil {
			d.ids = append(d.ids, at.ID())
		}
	}
	c.end(start, int(n))
	return d
}

// replyHistory replies with the pending entries of the consumer. A deleted entry is
// an ID and nil.
func (c *call) replyHistory(o *readOptions, d *delivery, from stream.ID) {
	start, n := c.begin(), int64(0)
	if consumer := d.g.Consumer(o.consumer); consumer != nil {
		consumer.EachPending(from, stream.Largest, func(p stream.Pending) bool {
			if at := d.s.Range(p.ID, p.ID); c.nextEntry(at) {
				c.streamEntry(at)
				d.ids = append(d.ids, p.ID)
			} else {
				c.array(2)
				c.streamID(p.ID)
				c.nullArray()
			}
			n++
			return n != o.count
		})
	}
	c.end(start, int(n))
}

// deliver notes that the consumer got the entries of deliveries, and empties these.
func (c *call) deliver(o *readOptions, deliveries []delivery) []delivery {
	for i := range deliveries {
		c.deliverOne(o, &deliveries[i])
	}
	return deliveries[:0]
}

func (c *call) deliverOne(o *readOptions, d *delivery) {
	consumer, made := c.consumer(d.key, d.g, o.consumer)
	last, read, now := d.g.LastID(), d.g.EntriesRead(), c.time()
	var claims []stream.Pending
	for _, id := range d.ids {
		p := stream.Pending{ID: id, Consumer: consumer, Time: now, Count: 1}
		switch {
		case d.history:
			old, _ := d.g.Get(id)
			p.Count = old.Count + 1
		default:
			d.g.Advance(id)
		}
		if d.history || !o.noAck {
			d.g.Put(p)
			claims = append(claims, p)
		}
	}
	c.modified(d.key)
	if made && len(claims) == 0 {
		c.instead([]byte("XGROUP"), []byte("CREATECONSUMER"), d.key, o.group, o.consumer)
	}
	c.logClaims(d.key, o.group, d.g, claims)
	if d.g.LastID() != last || d.g.EntriesRead() != read {
		c.logGroupID(d.key, o.group, d.g)
	}
}

// serveRead runs a command that has waited, for the key that became ready.
func (c *call) serveRead(o *readOptions) {
	r := streamRead{key: c.only}
	if it := c.lookup(r.key); it != nil && it.val.kind() == kindStream {
		r.s = asStream(it)
	}
	switch {
	case r.s == nil && o.group != nil:
		c.err(errStreamGone)
		return
	case r.s == nil:
		return
	case o.group != nil:
		if r.g = r.s.Group(o.group); r.g == nil {
			c.err(errGroupGone)
			return
		}
		r.after = r.g.LastID()
	default:
		i := slices.IndexFunc(c.args[o.at:o.at+o.n], func(key []byte) bool { return string(key) == string(r.key) })
		r.after, _ = parseStreamID(o.id(c, i), 0, true)
	}
	if !r.after.Less(r.s.LastID()) {
		return
	}
	if o.count == 0 {
		o.count = servedCount
	}
	if c.isRESP3() {
		c.mapHead(1)
	} else {
		c.array(1)
		c.array(2)
	}
	if d := c.replyRead(o, r); r.g != nil {
		c.deliver(o, []delivery{d})
	}
}
