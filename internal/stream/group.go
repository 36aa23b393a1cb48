package stream

import (
	"strings"
	"unsafe"

	"github.com/redoubt-go/redoubt/internal/sizeclass"
)

// Unknown is the EntriesRead of a group that can't tell.
const Unknown = -1

// groups are the consumer groups of a stream.
type groups struct {
	byName ordered[string, *Group]
	n      int
}

// A Group is a consumer group of a stream. It belongs to the stream, whose size it changes.
type Group struct {
	s         *Stream
	name      string
	last      ID
	read      int64
	pending   ordered[ID, Pending]
	n         int // of pending
	consumers ordered[string, *Consumer]
	members   int // of consumers
}

// A Consumer is a consumer of a group.
type Consumer struct {
	SeenTime int64 // Unix ms
	g        *Group
	name     string
	pending  ordered[ID, owned]
	n        int // of pending
}

// A Pending is an entry of a group's list of pending entries (PEL).
type Pending struct {
	ID       ID
	Consumer *Consumer
	Time     int64 // of the last delivery, Unix ms
	Count    uint64
}

// owned is the ID of a pending entry of a consumer.
type owned struct{ ID }

func (o owned) compare(id ID) int { return o.Compare(id) }

func (p Pending) compare(id ID) int { return p.ID.Compare(id) }

func (g *Group) compare(name string) int { return strings.Compare(g.name, name) }

func (c *Consumer) compare(name string) int { return strings.Compare(c.name, name) }

func (g *Group) fixedBytes() int64 {
	return sizeclass.Of(int(unsafe.Sizeof(*g))) + sizeclass.Of(len(g.name))
}

func (c *Consumer) fixedBytes() int64 {
	return sizeclass.Of(int(unsafe.Sizeof(*c))) + sizeclass.Of(len(c.name))
}

// view is name as a string that is only valid during a call.
func view(name []byte) string { return unsafe.String(unsafe.SliceData(name), len(name)) }

// Groups is the number of groups.
func (s *Stream) Groups() int {
	if s.groups == nil {
		return 0
	}
	return s.groups.n
}

// Group returns a group, nil when there is none of that name.
func (s *Stream) Group(name []byte) *Group {
	if s.groups == nil {
		return nil
	}
	p, ok := s.groups.byName.find(view(name))
	if !ok {
		return nil
	}
	return *s.groups.byName.at(p)
}

// AddGroup makes a group. It returns nil when there is one of that name.
func (s *Stream) AddGroup(name []byte, last ID, entriesRead int64) *Group {
	if s.groups == nil {
		s.groups = &groups{}
		s.taken += int64(unsafe.Sizeof(*s.groups))
	}
	p, ok := s.groups.byName.find(view(name))
	if ok {
		return nil
	}
	g := &Group{s: s, name: string(name), last: last, read: entriesRead}
	s.groups.byName.insert(p, g, &s.taken)
	s.groups.n++
	s.taken += g.fixedBytes()
	return g
}

// RemoveGroup removes a group with its consumers and pending entries. It reports whether it was there. Pointers to
// the group mean nothing from then on.
func (s *Stream) RemoveGroup(name []byte) bool {
	if s.groups == nil {
		return false
	}
	p, ok := s.groups.byName.find(view(name))
	if !ok {
		return false
	}
	g := *s.groups.byName.at(p)
	s.groups.byName.remove(p, &s.taken)
	s.taken -= g.fixedBytes() + g.pending.bytes() + g.consumers.bytes()
	g.EachConsumer(func(c *Consumer) bool {
		s.taken -= c.fixedBytes() + c.pending.bytes()
		return true
	})
	if s.groups.n--; s.groups.n == 0 {
		s.taken -= int64(unsafe.Sizeof(*s.groups))
		s.groups = nil
	}
	return true
}

// EachGroup calls f for each group in the order of the names, until it returns false. f must not add or remove
// groups.
func (s *Stream) EachGroup(f func(g *Group) bool) {
	if s.groups != nil {
		each(&s.groups.byName, place{}, f)
	}
}

// each calls f for the elements from p on, until it returns false.
func each[K any, E keyed[K]](o *ordered[K, E], p place, f func(e E) bool) {
	for ; p.chunk < len(o.chunks); p = (place{p.chunk + 1, 0}) {
		for _, e := range o.chunks[p.chunk][p.i:] {
			if !f(e) {
				return
			}
		}
	}
}

// hasTombstones reports whether an entry with from ≤ ID may have been deleted, as Redis decides it.
func (s *Stream) hasTombstones(from ID) bool {
	return s.length > 0 && !s.maxDeleted.IsZero() && !s.maxDeleted.Less(s.first) && !s.maxDeleted.Less(from)
}

// Lag is how many entries the group has still to read. It reports false when that is unknown.
func (s *Stream) Lag(g *Group) (int64, bool) {
	if s.added == 0 {
		return 0, true
	}
	read := g.read
	if read == Unknown || s.hasTombstones(g.last) {
		if read = s.Estimate(g.last); read == Unknown {
			return 0, false
		}
	}
	return int64(s.added) - read, true //nolint:gosec // as in Redis
}

// Estimate is the EntriesRead of a group whose last ID is id, [Unknown] when that can't be told.
func (s *Stream) Estimate(id ID) int64 {
	switch c := id.Compare(s.last); {
	case s.added == 0:
		return 0
	case c == 0, s.length == 0 && c < 0:
		return int64(s.added) //nolint:gosec // as in Redis
	case c > 0:
		return Unknown
	}
	if s.maxDeleted.IsZero() || s.maxDeleted.Less(s.first) { // nothing was deleted from here on
		gone := int64(s.added) - int64(s.length) //nolint:gosec // as in Redis
		switch c := id.Compare(s.first); {
		case c < 0:
			return gone
		case c == 0:
			return gone + 1
		}
	}
	return Unknown
}

// Name is the name of the group.
func (g *Group) Name() string { return g.name }

// LastID is the ID of the last entry that was delivered.
func (g *Group) LastID() ID { return g.last }

// EntriesRead is the group's counter, or [Unknown].
func (g *Group) EntriesRead() int64 { return g.read }

// SetID sets what LastID and EntriesRead return.
func (g *Group) SetID(last ID, entriesRead int64) { g.last, g.read = last, entriesRead }

// Advance notes that XREADGROUP > delivers the entry id: it sets LastID and EntriesRead when id is above LastID.
func (g *Group) Advance(id ID) {
	if !g.last.Less(id) {
		return
	}
	switch {
	case g.read != Unknown && !g.s.hasTombstones(id):
		g.read++
	case g.s.added > 0:
		g.read = g.s.Estimate(id)
	}
	g.last = id
}

// Consumers is the number of consumers.
func (g *Group) Consumers() int { return g.members }

// Consumer returns a consumer, nil when there is none of that name.
func (g *Group) Consumer(name []byte) *Consumer {
	p, ok := g.consumers.find(view(name))
	if !ok {
		return nil
	}
	return *g.consumers.at(p)
}

// AddConsumer makes a consumer. It returns nil when there is one of that name.
func (g *Group) AddConsumer(name []byte, seen int64) *Consumer {
	p, ok := g.consumers.find(view(name))
	if ok {
		return nil
	}
	c := &Consumer{SeenTime: seen, g: g, name: string(name)}
	g.consumers.insert(p, c, &g.s.taken)
	g.members++
	g.s.taken += c.fixedBytes()
	return c
}

// RemoveConsumer removes a consumer with its pending entries, and returns how many these were. The
// caller knows that it is there.
func (g *Group) RemoveConsumer(c *Consumer) int {
	p, ok := g.consumers.find(c.name)
	if !ok || *g.consumers.at(p) != c {
		return 0
	}
	each(&c.pending, place{}, func(o owned) bool {
		if p, ok := g.pending.find(o.ID); ok {
			g.pending.remove(p, &g.s.taken)
			g.n--
		}
		return true
	})
	g.consumers.remove(p, &g.s.taken)
	g.members--
	g.s.taken -= c.fixedBytes() + c.pending.bytes()
	n := c.n
	c.n, c.pending.chunks = 0, nil
	return n
}

// EachConsumer calls f for each consumer in the order of the names, until it returns false. f must not add or
// remove consumers.
func (g *Group) EachConsumer(f func(c *Consumer) bool) { each(&g.consumers, place{}, f) }

// Pending is the number of pending entries.
func (g *Group) Pending() int { return g.n }

// Get returns a pending entry.
func (g *Group) Get(id ID) (Pending, bool) {
	p, ok := g.pending.find(id)
	if !ok {
		return Pending{}, false
	}
	return *g.pending.at(p), true
}

// Put makes p a pending entry, or replaces the one with its ID: the consumer, the time, the count.
func (g *Group) Put(p Pending) {
	at, ok := g.pending.find(p.ID)
	if ok {
		old := g.pending.at(at)
		if old.Consumer != p.Consumer {
			old.Consumer.disown(p.ID)
			p.Consumer.own(p.ID)
		}
		*old = p
		return
	}
	g.pending.insert(at, p, &g.s.taken)
	g.n++
	p.Consumer.own(p.ID)
}

func (c *Consumer) own(id ID) {
	if at, ok := c.pending.find(id); !ok {
		c.pending.insert(at, owned{id}, &c.g.s.taken)
		c.n++
	}
}

func (c *Consumer) disown(id ID) {
	if at, ok := c.pending.find(id); ok {
		c.pending.remove(at, &c.g.s.taken)
		c.n--
	}
}

// Remove removes a pending entry and reports whether it was there.
func (g *Group) Remove(id ID) bool {
	at, ok := g.pending.find(id)
	if !ok {
		return false
	}
	g.pending.at(at).Consumer.disown(id)
	g.pending.remove(at, &g.s.taken)
	g.n--
	return true
}

// FirstPending returns the pending entry with the smallest ID.
func (g *Group) FirstPending() (Pending, bool) { return g.pendingAt(place{}) }

// EachPending calls f for each pending entry with from ≤ ID ≤ to, in order, until it returns false. f must not
// change the list.
func (g *Group) EachPending(from, to ID, f func(p Pending) bool) {
	at, _ := g.pending.find(from)
	each(&g.pending, at, func(p Pending) bool { return !to.Less(p.ID) && f(p) })
}

// LastPending returns the pending entry with the largest ID.
func (g *Group) LastPending() (Pending, bool) { return g.pendingAt(g.pending.last()) }

func (g *Group) pendingAt(at place) (Pending, bool) {
	if !g.pending.valid(at) {
		return Pending{}, false
	}
	return *g.pending.at(at), true
}

// Name is the name of the consumer.
func (c *Consumer) Name() string { return c.name }

// Pending is the number of pending entries of the consumer.
func (c *Consumer) Pending() int { return c.n }

// EachPending is [Group.EachPending] for the entries of the consumer.
func (c *Consumer) EachPending(from, to ID, f func(p Pending) bool) {
	at, _ := c.pending.find(from)
	each(&c.pending, at, func(o owned) bool {
		if to.Less(o.ID) {
			return false
		}
		p, ok := c.g.Get(o.ID)
		return !ok || f(p)
	})
}

// clone copies the group into s, with the pending entries that keep wants, or all when it is nil.
func (g *Group) clone(s *Stream, keep func(p Pending) bool, work func(bytes int)) {
	count := func(bytes int) {
		if work != nil {
			work(bytes)
		}
	}
	to := s.AddGroup([]byte(g.name), g.last, g.read)
	copies := make(map[*Consumer]*Consumer, g.members)
	g.EachConsumer(func(c *Consumer) bool {
		count(int(unsafe.Sizeof(*c)) + len(c.name))
		copies[c] = to.AddConsumer([]byte(c.name), c.SeenTime)
		return true
	})
	each(&g.pending, place{}, func(p Pending) bool {
		count(2 * int(unsafe.Sizeof(p)))
		if keep != nil && !keep(p) {
			return true
		}
		p.Consumer = copies[p.Consumer]
		to.Put(p)
		return true
	})
}
