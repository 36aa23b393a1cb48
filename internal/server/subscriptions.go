package server

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// In front of a pool, SUBSCRIBE goes to all servers, because a script publishes on the server
// where it runs, whatever the channel's name. So each message reaches each subscriber once, and
// PUBLISH returns the right number of subscribers. PUBLISH itself goes to the server that has the
// channel's name as a key. Shard channels are on that server only. The nodes of a cluster pass
// messages on to each other (except keyspace notifications), so there SUBSCRIBE goes to one node.
// A client has its own connection to each server that it subscribes on. The confirmations of
// all servers become one reply, as from one server.
//
// A server that can't be reached is left out if there are others: subscribers to names on the others must
// not notice. Messages that it publishes after its return and before the subscription stands again are
// lost, so the client is closed then: see subscriptionGaps.

// pubsubFamilies are the commands that change what a client listens to.
var pubsubFamilies = map[string]proxy.Subscription{
	"subscribe": proxy.Channels, "unsubscribe": proxy.Channels,
	"psubscribe": proxy.Patterns, "punsubscribe": proxy.Patterns,
	"ssubscribe": proxy.Shards, "sunsubscribe": proxy.Shards,
}

// aboutKeys reports whether each server publishes to the channel about its own keys.
func aboutKeys(channel string) bool { return strings.HasPrefix(channel, "__key") }

// subscriptions are all of one client.
type subscriptions struct {
	c     *pooled
	total atomic.Int64 // of channels, patterns and shards

	mu    sync.Mutex
	names [4]map[string][]*proxy.Node // by family: on which servers
	nodes map[*proxy.Node]*subscriber // changed by the session alone
	ring  servers                     // as it was before there were any names
	ends  bool                        // subscriptions, as the client wants it
	holds bool                        // messages wait for a confirmation
	held  [][]byte                    // that is on its way
	size  int                         // of held
	bytes int                         // of names
	room  func(bytes int) bool        // counts names
	seen  servers                     // at the last check by misplaced
}

const (
	// maxSubscribed bounds the names of all subscriptions of a client in bytes, as the engine does.
	maxSubscribed = 64 << 20
	// perName is the least that a name takes beside its bytes.
	perName = 64
)

// hold counts n more bytes of names. It returns why they may not come, and "" otherwise.
func (s *subscriptions) hold(n int) string {
	switch {
	case s.bytes+n > maxSubscribed:
		return "ERR too many subscriptions"
	case !s.room(s.bytes + n):
		return "ERR redoubt: " + errNoRoom.Error() + ": the subscription was not made"
	}
	s.bytes += n
	return ""
}

// A subscriber is a client's connection to one server that it listens on.
type subscriber struct {
	of        *subscriptions
	node      *proxy.Node
	d         *proxy.Dedicated
	ended     atomic.Bool // on purpose
	confirmed chan answer // to a command: empty, or an error

	// Guarded by subscriptions.mu.
	needed bool  // for what has been confirmed to the client
	alone  bool  // some of that is on this server alone
	lost   error // why the connection has ended
}

// at returns the servers of a channel or pattern now.
func (s *subscriptions) at(family proxy.Subscription, name string) []*proxy.Node {
	pool := s.c.target.pool.Load()
	if family != proxy.Shards && (pool.Slots() == nil || aboutKeys(name)) {
		return pool.Nodes()
	}
	return []*proxy.Node{pool.Pick([]byte(name))}
}

// subscription runs a command of pubsubFamilies.
func (c *pooled) subscription(name string, args [][]byte) {
	family := pubsubFamilies[name]
	switch {
	case c.tx.active:
		c.refuseQueued(strings.ToUpper(name))
		return
	case c.pool.Scatters():
		c.fail("ERR redoubt: " + strings.ToUpper(name) + " " + whereRandom)
		return
	}
	names := make([]string, 0, len(args)-1)
	for _, a := range args[1:] {
		names = append(names, string(a))
	}
	if !c.quiesce() {
		return
	}
	s := c.subscribed.Load()
	if s == nil {
		s = &subscriptions{c: c, nodes: make(map[*proxy.Node]*subscriber), room: c.account()}
		for f := range s.names {
			s.names[f] = make(map[string][]*proxy.Node)
		}
		c.subscribed.Store(s)
	}
	c.as(Passed)
	if strings.Contains(name, "unsubscribe") {
		s.remove(family, name, names)
	} else {
		s.add(family, name, names)
	}
	c.restricted = c.protocol == resp.RESP2 && s.total.Load() > 0
}

// add subscribes to names, or to none of them if a server refuses.
func (s *subscriptions) add(family proxy.Subscription, verb string, names []string) {
	c := s.c
	s.mu.Lock()
	s.holds = true
	s.mu.Unlock()
	var confirmations []byte
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(confirmations) > 0 {
			c.out.Push(confirmations)
		}
		for _, raw := range s.held {
			if s.wants(raw) { // not what came before a server refused
				c.out.Push(raw)
			}
		}
		s.holds, s.held, s.size = false, nil, 0
	}()
	if s.total.Load() == 0 {
		pool := c.target.pool.Load()
		s.mu.Lock()
		s.ring = servers{pool, pool.Changes()}
		s.mu.Unlock()
	}
	at, more := make(map[string][]*proxy.Node), 0
	for _, n := range names {
		if _, has := s.names[family][n]; !has {
			if _, twice := at[n]; !twice {
				more += len(n) + perName
			}
			at[n] = s.at(family, n)
		}
	}
	if why := s.hold(more); why != "" {
		c.fail(why)
		return
	}
	faults := s.sendAll(family, verb, at)
	node, err := fatal(at, faults)
	if err != nil && c.target.pool.Load().Slots() != nil {
		faults, node, err = s.retryElsewhere(family, verb, at, node, err)
	}
	if err != nil {
		s.sendAll(family, opposite[verb], at)
		s.hold(-more)
		s.closeUnused()
		c.scratch = append(c.scratch[:0], c.notBorrowed(node, err)...)
		c.reply(c.scratch)
		return
	}
	for _, n := range names {
		s.mu.Lock()
		if nodes, isNew := at[n]; isNew {
			s.names[family][n], s.seen = nodes, servers{} // the place was looked up a while ago
		}
		s.mu.Unlock()
		confirmations = s.appendConfirmation(confirmations, verb, family, &n)
	}
	if err := s.need(family, nil); err != nil {
		c.lostConnection(err)
	}
	for n := range faults {
		c.target.noteGap(n, c)
	}
}

// need notes which connections the client needs, apart from some names of a family. It returns an error if
// a needed connection is lost and no other one can replace it.
func (s *subscriptions) need(family proxy.Subscription, but map[string][]*proxy.Node) (lost error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.nodes {
		sub.needed, sub.alone = false, false
	}
	for f, names := range s.names {
		for name, nodes := range names {
			if _, ends := but[name]; ends && f == int(family) {
				continue
			}
			for _, n := range nodes {
				if sub := s.nodes[n]; sub != nil { // else it is down
					sub.needed, sub.alone = true, sub.alone || len(nodes) == 1
				}
			}
		}
	}
	for _, sub := range s.nodes {
		switch {
		case !sub.needed || sub.lost == nil:
		case s.dispensable(sub):
			s.c.target.noteGap(sub.node, s.c)
		default:
			lost = sub.lost
		}
	}
	return lost
}

// dispensable reports whether a client that has lost sub still listens on the other servers. The caller
// holds mu.
func (s *subscriptions) dispensable(sub *subscriber) bool {
	if sub.alone {
		return false
	}
	for _, o := range s.nodes {
		if o.needed && o.lost == nil {
			return true
		}
	}
	return false
}

// remove ends subscriptions: those to names, or all of the family when there are none.
func (s *subscriptions) remove(family proxy.Subscription, verb string, names []string) {
	if len(names) == 0 {
		for n := range s.names[family] {
			names = append(names, n)
		}
		slices.Sort(names)
		if len(names) == 0 {
			s.c.out.Push(s.appendConfirmation(nil, verb, family, nil))
			return
		}
	}
	at := make(map[string][]*proxy.Node)
	for _, n := range names {
		if nodes, has := s.names[family][n]; has {
			if _, twice := at[n]; !twice {
				s.hold(-len(n) - perName)
			}
			at[n] = nodes
		}
	}
	// A connection that is lost has no subscriptions either, and ends the client if it is
	// needed for others.
	_ = s.need(family, at) // one that was lost before has ended it
	s.end(true)
	s.sendAll(family, verb, at)
	s.end(false)
	var confirmations []byte
	for _, n := range names {
		s.mu.Lock()
		delete(s.names[family], n)
		s.mu.Unlock()
		confirmations = s.appendConfirmation(confirmations, verb, family, &n)
	}
	s.closeUnused()
	s.c.out.Push(confirmations)
}

// end notes whether the client itself ends subscriptions now.
func (s *subscriptions) end(yes bool) { //nolint:revive // the parameter is the state
	s.mu.Lock()
	s.ends = yes
	s.mu.Unlock()
}

// closeUnused closes the connections without subscriptions.
func (s *subscriptions) closeUnused() {
	for n, sub := range s.nodes {
		s.mu.Lock()
		needed := sub.needed
		if !needed {
			delete(s.nodes, n)
		}
		s.mu.Unlock()
		if !needed {
			sub.end()
		}
	}
}

func (sub *subscriber) end() {
	sub.ended.Store(true)
	sub.d.Close()
	<-sub.d.Done()
	sub.of.c.srv.stats.dedicated.Add(-1)
}

// endSubscriptions closes all connections that the client listens on.
func (c *pooled) endSubscriptions() {
	s := c.subscribed.Load()
	if s == nil {
		return
	}
	for _, sub := range s.nodes {
		sub.end()
	}
	c.target.gaps.forget(c)
	s.hold(-s.bytes)
	c.subscribed.Store(nil)
	c.restricted = false
}

// appendConfirmation appends the confirmation of a change in Redis' form: the name, nil for none, and the
// number of channels and patterns, or of shard channels.
func (s *subscriptions) appendConfirmation(dst []byte, verb string, family proxy.Subscription, name *string) []byte {
	channels, shards := len(s.names[proxy.Channels])+len(s.names[proxy.Patterns]), len(s.names[proxy.Shards])
	s.total.Store(int64(channels + shards))
	count := channels
	if family == proxy.Shards {
		count = shards
	}
	p := s.c.protocol
	dst = resp.AppendArray(dst, 3)
	if p == resp.RESP3 {
		dst[len(dst)-len("*3\r\n")] = '>'
	}
	dst = resp.AppendBulk(dst, verb)
	if name == nil {
		dst = resp.AppendNull(dst, p)
	} else {
		dst = resp.AppendBulk(dst, *name)
	}
	return resp.AppendInt(dst, int64(count))
}

// misplaced reports whether a channel or pattern has other servers now. It checks each state of the pool
// once.
func (s *subscriptions) misplaced(now servers) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == now {
		return false
	}
	s.seen = now
	if now.pool.Slots() == nil && s.ring != now && len(s.names[proxy.Channels])+len(s.names[proxy.Patterns]) > 0 {
		return true // keys have another server: what is told about them, too
	}
	for family, names := range s.names {
		for name, nodes := range names {
			if s.misplacedAt(proxy.Subscription(family), name, nodes) { //nolint:gosec // at most 3
				return true
			}
		}
	}
	return false
}

// Reply implements proxy.ReplyHandler.
func (sub *subscriber) Reply(_ uint64, raw []byte) bool {
	select {
	case sub.confirmed <- answer{raw: bytes.Clone(raw)}:
	default:
	}
	return false
}

// Fail implements proxy.Failer.
func (sub *subscriber) Fail(_ uint64, f *proxy.Fault) bool {
	select {
	case sub.confirmed <- answer{f.Reply(), f}:
	default:
	}
	return false
}

// Flush implements proxy.ReplyHandler.
func (sub *subscriber) Flush() { sub.of.c.out.Flush() }

// Push implements proxy.Listener. Confirmations are made here, see appendConfirmation.
func (sub *subscriber) Push(raw []byte) bool {
	s := sub.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if !isMessage(raw) {
		if !s.ends && sub.needed && bytes.Contains(raw, []byte("\r\nsunsubscribe\r\n")) { // the slot has moved
			s.c.drain(errMoved)
		}
		return false
	}
	if !s.holds {
		return s.c.out.Push(raw)
	}
	if s.size += len(raw); s.size > s.c.srv.opts.MaxOutput {
		s.c.out.fail(fmt.Errorf("%d bytes of messages wait for a confirmation", s.size))
		return false
	}
	s.held = append(s.held, bytes.Clone(raw))
	return false
}

// Gone implements proxy.Listener. Messages may be lost, so the client is closed, to subscribe anew: at once,
// or, if it listens on other servers too, once this one is back. A client whose subscription was not
// confirmed yet gets an error instead.
func (sub *subscriber) Gone(err error) {
	s := sub.of
	s.mu.Lock()
	sub.lost = err
	needed, dispensable := sub.needed, s.dispensable(sub)
	s.mu.Unlock()
	switch {
	case !needed || sub.ended.Load():
	case dispensable:
		s.c.target.noteGap(sub.node, s.c)
	default:
		s.c.lostConnection(err)
	}
}

// wants reports whether the client is subscribed to the channel of a message. The caller holds mu.
func (s *subscriptions) wants(raw []byte) bool {
	v, _, _ := resp.Parse(raw)
	m, ok := v.([]any)
	if push, is := v.(resp.Push); is {
		m, ok = push, true
	}
	if !ok || len(m) < 3 {
		return false
	}
	family := map[any]proxy.Subscription{"message": proxy.Channels, "pmessage": proxy.Patterns, "smessage": proxy.Shards}
	name, _ := m[1].(string)
	_, has := s.names[family[m[0]]][name]
	return has
}

// isMessage tells messages from confirmations.
func isMessage(raw []byte) bool {
	const head = len("*3\r\n$7\r\n")
	return len(raw) > head+1 && (bytes.HasPrefix(raw[head:], []byte("message\r\n")) || bytes.HasPrefix(raw[head+1:], []byte("message\r\n")))
}

// whileSubscribed answers commands in RESP2 while messages may come.
func (c *pooled) whileSubscribed(args [][]byte) {
	if !bytes.EqualFold(args[0], []byte("ping")) || len(args) > 2 {
		c.fail("ERR Can't execute '" + strings.ToLower(string(args[0])) +
			"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
		return
	}
	text := ""
	if len(args) == 2 {
		text = string(args[1])
	}
	c.scratch = resp.AppendArray(c.scratch[:0], 2)
	c.scratch = resp.AppendBulk(c.scratch, "pong")
	c.scratch = resp.AppendBulk(c.scratch, text)
	c.reply(c.scratch)
}
