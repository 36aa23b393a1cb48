package engine

import (
	"math"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/stream"
)

// claimOptions are the options of XCLAIM behind the IDs.
type claimOptions struct {
	delivered int64 // Unix ms
	retries   int64 // -1 for those before, and one more
	force     bool
	justID    bool
	last      stream.ID
}

// claimArgs reads the options of XCLAIM, which begin at args[i].
func (c *call) claimArgs(i int) (o claimOptions, ok bool) {
	now := c.time()
	o.delivered, o.retries = -1, -1
	for ; i < len(c.args); i++ {
		a := c.args[i]
		if is(a, "force") {
			o.force = true
			continue
		}
		if is(a, "justid") {
			o.justID = true
			continue
		}
		if i++; i == len(c.args) {
			c.unknownClaim(a)
			return o, false
		}
		number := func(name string, p *int64) {
			if *p, ok = parseInt(c.args[i]); !ok {
				c.err("ERR Invalid " + name + " option argument for XCLAIM")
			}
		}
		switch {
		case is(a, "idle"):
			number("IDLE", &o.delivered)
			o.delivered = now - o.delivered
		case is(a, "time"):
			number("TIME", &o.delivered)
		case is(a, "retrycount"):
			number("RETRYCOUNT", &o.retries)
		case is(a, "lastid"):
			o.last, ok = c.argID(c.args[i])
		default:
			c.unknownClaim(a)
			return o, false
		}
		if !ok {
			return o, false
		}
	}
	if o.delivered < 0 || o.delivered > now && !c.replays() {
		o.delivered = now
	}
	return o, true
}

func (c *call) unknownClaim(a []byte) {
	c.err("ERR Unrecognized XCLAIM option '" + string(cText(a)) + "'")
}

// A claim is what XCLAIM or XAUTOCLAIM does with a pending entry.
type claim struct {
	id   stream.ID
	gone bool // the entry is deleted: it is no longer pending
}

func cmdXclaim(c *call) {
	c.logged = true
	s, g, ok := c.groupOf()
	if !ok {
		return
	}
	idle, ok := parseInt(c.args[4])
	if !ok {
		c.err("ERR Invalid min-idle-time argument for XCLAIM")
		return
	}
	var ids []stream.ID
	for _, a := range c.args[5:] {
		id, ok := parseStreamID(a, 0, true)
		if !ok {
			break
		}
		ids = append(ids, id)
	}
	o, ok := c.claimArgs(5 + len(ids))
	if !ok {
		return
	}
	claims := c.replyClaims(s, g, ids, max(idle, 0), &o)
	raised := g.LastID().Less(o.last)
	if raised {
		g.SetID(o.last, g.EntriesRead())
	}
	if c.claim(g, claims, &o) == 0 && raised {
		c.logGroupID(c.args[1], c.args[2], g)
		c.modified(c.args[1])
	}
}

// replyClaims finds what XCLAIM does with each ID, and replies with the entries.
func (c *call) replyClaims(s *stream.Stream, g *stream.Group, ids []stream.ID, idle int64, o *claimOptions) (claims []claim) {
	now := c.time()
	var seen map[stream.ID]bool // the IDs that were claimed before in this command
	if len(ids) > 1 {
		seen = make(map[stream.ID]bool, len(ids))
	}
	start, n := c.begin(), 0
	for _, id := range ids {
		claimed := seen[id]
		p, pending := g.Get(id)
		at := s.Range(id, id)
		if !c.nextEntry(at) {
			if pending && !claimed {
				claims = append(claims, claim{id, true})
				if seen != nil {
					seen[id] = true
				}
			}
			continue
		}
		if claimed { // by the first mention of the ID
			p.Time, pending = o.delivered, true
		}
		switch {
		case !pending && !o.force, pending && idle > 0 && now-p.Time < idle:
			continue
		}
		if seen != nil {
			seen[id] = true
		}
		claims = append(claims, claim{id, false})
		c.replyClaim(at, o.justID)
		n++
	}
	c.end(start, n)
	return claims
}

func (c *call) replyClaim(at *stream.Cursor, justID bool) {
	if justID {
		c.streamID(at.ID())
	} else {
		c.streamEntry(at)
	}
}

// claim gives pending entries to the consumer args[3], and forgets entries that are gone. It returns how
// many changes the log got.
func (c *call) claim(g *stream.Group, claims []claim, o *claimOptions) int {
	key, group := c.args[1], c.args[2]
	var consumer *stream.Consumer
	var gone []stream.ID
	taken := make([]stream.Pending, 0, len(claims))
	for _, cl := range claims {
		c.modified(key)
		if cl.gone {
			g.Remove(cl.id)
			gone = append(gone, cl.id)
			continue
		}
		if consumer == nil {
			consumer, _ = c.consumer(key, g, c.args[3])
		}
		p, pending := g.Get(cl.id)
		if !pending {
			p.Count = 1 // FORCE makes an entry that was delivered once, as in Redis
		}
		p = stream.Pending{ID: cl.id, Consumer: consumer, Time: o.delivered, Count: p.Count}
		switch {
		case o.retries >= 0:
			p.Count = uint64(o.retries) //nolint:gosec // not negative
		case !o.justID:
			p.Count++
		}
		g.Put(p)
		taken = append(taken, p)
	}
	c.logAcks(key, group, gone)
	c.logClaims(key, group, g, taken)
	return len(claims) - len(gone)
}

// mostAutoClaims is the largest COUNT of XAUTOCLAIM, and attemptsPerClaim how many pending entries it
// looks at for each entry that it may claim.
const (
	mostAutoClaims   = math.MaxInt64 / 16
	attemptsPerClaim = 10
)

func cmdXautoclaim(c *call) {
	c.logged = true
	idle, ok := parseInt(c.args[4])
	if !ok {
		c.err("ERR Invalid min-idle-time argument for XAUTOCLAIM")
		return
	}
	from, ok := c.argStart(c.args[5])
	if !ok {
		return
	}
	count, o := int64(100), claimOptions{delivered: c.time(), retries: -1}
	for i := 6; i < len(c.args); i++ {
		switch a := c.args[i]; {
		case is(a, "count") && i+1 < len(c.args):
			i++
			if count, ok = parseInt(c.args[i]); !ok || count < 1 || count > mostAutoClaims {
				c.err("ERR COUNT must be > 0")
				return
			}
		case is(a, "justid"):
			o.justID = true
		default:
			c.syntax()
			return
		}
	}
	s, g, ok := c.groupOf()
	if !ok {
		return
	}
	if count > math.MaxInt64>>20 { // Redis allocates memory for so many IDs
		c.err("ERR Insufficient memory, failed allocating transient memory, COUNT too high.")
		return
	}
	c.claim(g, c.replyAutoClaims(s, g, from, count, max(idle, 0), o.justID), &o)
}

// replyAutoClaims finds the pending entries that XAUTOCLAIM claims and the deleted ones, and
// replies.
func (c *call) replyAutoClaims(s *stream.Stream, g *stream.Group, from stream.ID, count, idle int64, justID bool) (claims []claim) {
	now := c.time()
	attempts := count * attemptsPerClaim
	start, n := c.begin(), 0
	next := stream.ID{}
	var gone []stream.ID
	g.EachPending(from, stream.Largest, func(p stream.Pending) bool {
		if attempts == 0 || count == 0 {
			next = p.ID
			return false
		}
		attempts--
		at := s.Range(p.ID, p.ID)
		there := c.nextEntry(at)
		if there && idle > 0 && now-p.Time < idle {
			return true
		}
		count--
		claims = append(claims, claim{p.ID, !there})
		if there {
			c.replyClaim(at, justID)
			n++
		} else {
			gone = append(gone, p.ID)
		}
		return true
	})
	c.end(start, n)
	var buf [64]byte
	head := resp.AppendArray(buf[:0], 3)
	c.insert(start, resp.AppendBulk(head, next.String()))
	c.array(len(gone))
	for _, id := range gone {
		c.streamID(id)
	}
	return claims
}
