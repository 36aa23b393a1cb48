package engine

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/glob"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// pubsub has the subscribers of each channel. Lock it after shards, never before.
type pubsub struct {
	mu       sync.RWMutex
	channels map[string]map[*Session]struct{}
	shard    map[string]map[*Session]struct{} // SSUBSCRIBE
	patterns map[string]map[*Session]struct{}
	globs    nameSet                  // the names in patterns
	copied   atomic.Pointer[[]string] // a copy of globs, until that changes
}

func (p *pubsub) init() {
	p.channels = map[string]map[*Session]struct{}{}
	p.shard = map[string]map[*Session]struct{}{}
	p.patterns = map[string]map[*Session]struct{}{}
}

// subscriptions are a session's. Only the session's goroutine changes them.
type subscriptions struct {
	count    int // channels and patterns, and shard channels
	size     int // bytes of their names
	held     bufferAccount
	channels nameSet
	shard    nameSet
	patterns nameSet
}

// A nameSet is an ordered set of names. Finding and removing one takes the same time however many
// there are.
type nameSet struct {
	names []string
	at    map[string]int
}

func (ns *nameSet) len() int { return len(ns.names) }

func (ns *nameSet) add(name string) {
	if ns.at == nil {
		ns.at = map[string]int{}
	}
	ns.at[name] = len(ns.names)
	ns.names = append(ns.names, name)
}

// remove reports whether the name was there. The last takes its place.
func (ns *nameSet) remove(name string) bool {
	i, ok := ns.at[name]
	if !ok {
		return false
	}
	last := len(ns.names) - 1
	ns.names[i] = ns.names[last]
	ns.at[ns.names[i]] = i
	ns.names[last] = ""
	ns.names = ns.names[:last]
	delete(ns.at, name)
	return true
}

// frames writes a message once for each protocol in use.
type frames [2][]byte

func (f *frames) get(p resp.Protocol, parts ...[]byte) []byte {
	i := int(p - resp.RESP2)
	if f[i] == nil {
		b := resp.AppendPush(nil, p, len(parts))
		for _, part := range parts {
			b = resp.AppendBulk(b, part)
		}
		f[i] = b
	}
	return f[i]
}

// publish delivers a message and returns how many subscriptions got it. It matches patterns
// with the lock released, so clients that subscribe or leave do not wait for that.
func (p *pubsub) publish(channel, message []byte) (n int) {
	n = p.deliver(p.channels, string(channel), []byte("message"), channel, message)
	for _, pattern := range p.patternNames() {
		if glob.Match(view(pattern), channel) {
			n += p.deliver(p.patterns, pattern, []byte("pmessage"), view(pattern), channel, message)
		}
	}
	return n
}

func (p *pubsub) spublish(channel, message []byte) (n int) {
	return p.deliver(p.shard, string(channel), []byte("smessage"), channel, message)
}

// deliver sends a message to all sessions that m lists under name, and returns how many.
func (p *pubsub) deliver(m map[string]map[*Session]struct{}, name string, message ...[]byte) int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var f frames
	sessions := m[name]
	for s := range sessions {
		s.deliver(f.get(s.pushProtocol(), message...))
	}
	return len(sessions)
}

// patternNames returns all patterns. The slice must not be changed.
func (p *pubsub) patternNames() []string {
	if names := p.copied.Load(); names != nil {
		return *names
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	names := slices.Clone(p.globs.names)
	p.copied.Store(&names)
	return names
}

// list adds a session to the subscribers of a name. The caller holds the lock.
func (p *pubsub) list(t topic, name string, s *Session) {
	m := p.of(t)
	if m[name] == nil {
		m[name] = map[*Session]struct{}{}
		if t == topicPattern {
			p.globs.add(name)
			p.copied.Store(nil)
		}
	}
	m[name][s] = struct{}{}
}

// unlist removes a session from the subscribers of a name. The caller holds the lock.
func (p *pubsub) unlist(t topic, name string, s *Session) {
	m := p.of(t)
	delete(m[name], s)
	if len(m[name]) > 0 {
		return
	}
	delete(m, name)
	if t == topicPattern && p.globs.remove(name) {
		p.copied.Store(nil)
	}
}

func (p *pubsub) of(t topic) map[string]map[*Session]struct{} {
	switch t {
	case topicPattern:
		return p.patterns
	case topicShard:
		return p.shard
	default:
	}
	return p.channels
}

// atOnce is how many names drop handles before it releases the lock for others.
const atOnce = 256

// drop ends all subscriptions of a session.
func (p *pubsub) drop(s *Session) {
	for _, t := range []topic{topicChannel, topicShard, topicPattern} {
		for names := range slices.Chunk(s.topics(t).names, atOnce) {
			p.mu.Lock()
			for _, name := range names {
				p.unlist(t, name, s)
			}
			p.mu.Unlock()
		}
	}
	p.mu.Lock() // for CLIENT LIST
	defer p.mu.Unlock()
	s.subs.held.set(s.account, 0)
	s.subs = subscriptions{held: s.subs.held}
}

func cmdPublish(c *call) {
	c.int(int64(c.e.pubsub.publish(c.args[1], c.args[2])))
	c.published()
}

func cmdSpublish(c *call) {
	c.int(int64(c.e.pubsub.spublish(c.args[1], c.args[2])))
	c.published()
}

// published has replicas publish the message too.
func (c *call) published() {
	c.dirty++
	if r := &c.e.replication; !c.noBlock && r.on.Load() { // else it is an effect of the transaction or the script
		r.append(c.db, [][][]byte{c.args})
	}
}

// A topic is one of the three kinds of subscription.
type topic uint8

const (
	topicChannel topic = iota
	topicPattern
	topicShard
)

var (
	subscribeNames   = [...]string{"subscribe", "psubscribe", "ssubscribe"}
	unsubscribeNames = [...]string{"unsubscribe", "punsubscribe", "sunsubscribe"}
)

func (s *Session) topics(t topic) *nameSet {
	switch t {
	case topicPattern:
		return &s.subs.patterns
	case topicShard:
		return &s.subs.shard
	default:
	}
	return &s.subs.channels
}

// countOf is the number in the replies to SUBSCRIBE and its relatives: shard channels count
// separately.
func (s *Session) countOf(t topic) int {
	if t == topicShard {
		return s.subs.shard.len()
	}
	return s.subs.channels.len() + s.subs.patterns.len()
}

func cmdSubscribe(c *call)    { c.subscribe(topicChannel) }
func cmdPsubscribe(c *call)   { c.subscribe(topicPattern) }
func cmdSsubscribe(c *call)   { c.subscribe(topicShard) }
func cmdUnsubscribe(c *call)  { c.unsubscribe(topicChannel) }
func cmdPunsubscribe(c *call) { c.unsubscribe(topicPattern) }
func cmdSunsubscribe(c *call) { c.unsubscribe(topicShard) }

func (c *call) subscribe(t topic) {
	if c.scripted {
		c.err("ERR This command is not allowed from scripts")
		return
	}
	s := c.s
	c.confirms = true
	for _, name := range c.args[1:] {
		s.e.pubsub.mu.Lock()
		own := s.topics(t)
		_, there := own.at[string(name)]
		if !there && s.subs.size+len(name)+perName > s.e.bounds.names {
			s.e.pubsub.mu.Unlock()
			c.err("ERR too many subscriptions")
			return
		}
		if !there && !s.subs.held.set(s.account, s.subs.size+len(name)+perName+(s.subs.count+1)*perListed) {
			s.e.pubsub.mu.Unlock()
			c.err("ERR the subscription has no room: " + noRoom)
			return
		}
		if !there {
			s.e.pubsub.list(t, string(name), s)
			own.add(string(name))
			s.subs.count++
			s.subs.size += len(name) + perName
		}
		s.e.pubsub.mu.Unlock()
		c.pushHead(3)
		c.str(subscribeNames[t])
		c.bulk(name)
		c.int(int64(s.countOf(t)))
	}
}

func (c *call) unsubscribe(t topic) {
	s := c.s
	c.confirms = true
	own := s.topics(t)
	names := c.args[1:]
	if len(names) == 0 {
		for _, name := range own.names {
			names = append(names, []byte(name))
		}
	}
	if len(names) == 0 {
		c.pushHead(3)
		c.str(unsubscribeNames[t])
		c.null()
		c.int(int64(s.countOf(t)))
		return
	}
	for _, name := range names {
		s.e.pubsub.mu.Lock()
		if own.remove(string(name)) {
			s.e.pubsub.unlist(t, string(name), s)
			s.subs.count--
			s.subs.size -= len(name) + perName
			s.subs.held.set(s.account, s.subs.size+s.subs.count*perListed)
		}
		s.e.pubsub.mu.Unlock()
		c.pushHead(3)
		c.str(unsubscribeNames[t])
		c.bulk(name)
		c.int(int64(s.countOf(t)))
	}
}

// names replies with the names in m that match the optional pattern.
func (c *call) channelNames(m map[string]map[*Session]struct{}) {
	if len(c.args) > 3 {
		c.unknownForm()
		return
	}
	c.e.pubsub.mu.RLock()
	names := slices.Collect(maps.Keys(m))
	c.e.pubsub.mu.RUnlock()
	start, n := c.begin(), 0
	for _, name := range names {
		if len(c.args) < 3 || glob.Match(c.args[2], view(name)) {
			c.str(name)
			n++
		}
	}
	c.end(start, n)
}

func (c *call) channelCounts(m map[string]map[*Session]struct{}) {
	c.array(2 * (len(c.args) - 2))
	for _, name := range c.args[2:] {
		c.e.pubsub.mu.RLock()
		n := len(m[string(name)])
		c.e.pubsub.mu.RUnlock()
		c.bulk(name)
		c.int(int64(n))
	}
}

func cmdPubsubChannels(c *call)      { c.channelNames(c.e.pubsub.channels) }
func cmdPubsubShardchannels(c *call) { c.channelNames(c.e.pubsub.shard) }
func cmdPubsubNumsub(c *call)        { c.channelCounts(c.e.pubsub.channels) }
func cmdPubsubShardnumsub(c *call)   { c.channelCounts(c.e.pubsub.shard) }

func cmdPubsubNumpat(c *call) {
	c.e.pubsub.mu.RLock()
	defer c.e.pubsub.mu.RUnlock()
	c.int(int64(len(c.e.pubsub.patterns)))
}
