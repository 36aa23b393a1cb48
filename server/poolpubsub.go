package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// In front of a pool a channel lives on the server that has its name as a key: there
// PUBLISH sends, and SUBSCRIBE listens. What may come from any server is listened to on
// all of them: patterns, and the channels of keyspace notifications. The nodes of a cluster
// tell each other what is published, but for keyspace notifications, so there one is listened
// to. A client has a
// connection of its own to each server that it listens on, and what they confirm is
// told to the client as one server would.

// pubsubFamilies are the commands that change what a client listens to.
var pubsubFamilies = map[string]proxy.Subscription{
	"subscribe": proxy.Channels, "unsubscribe": proxy.Channels,
	"psubscribe": proxy.Patterns, "punsubscribe": proxy.Patterns,
	"ssubscribe": proxy.Shards, "sunsubscribe": proxy.Shards,
}

// heardEverywhere tells the channels to which every server publishes about its own keys.
func heardEverywhere(channel string) bool { return strings.HasPrefix(channel, "__key") }

// subscriptions are all of one client.
type subscriptions struct {
	c     *session
	total atomic.Int64 // of channels, patterns and shards

	mu    sync.Mutex
	names [4]map[string][]*proxy.Node // by family: on which servers
	nodes map[*proxy.Node]*subscriber
	holds bool     // messages wait for a confirmation
	held  [][]byte // that is on its way
	size  int      // of held
	seen  servers  // when the places of all names were checked last
}

// A subscriber is a client's connection to one server that it listens on.
type subscriber struct {
	of        *subscriptions
	d         *proxy.Dedicated
	ended     atomic.Bool // on purpose
	confirmed chan []byte // the reply to a command: empty, or an error

	// Guarded by subscriptions.mu.
	needed bool  // for what has been confirmed to the client
	lost   error // why the connection has ended
}

// at returns the servers of a channel or pattern now.
func (s *subscriptions) at(family proxy.Subscription, name string) []*proxy.Node {
	pool := s.c.srv.pool.Load()
	if family == proxy.Patterns && pool.Slots() == nil || family != proxy.Shards && heardEverywhere(name) {
		return pool.Live()
	}
	return []*proxy.Node{pool.Pick([]byte(name))}
}

// subscription runs a command of pubsubFamilies.
func (c *session) subscription(name string, args [][]byte) {
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
	c.leave() // others write to it, too
	if !c.settle() {
		return
	}
	c.out.Flush() // connecting may take long
	s := c.subscribed.Load()
	if s == nil {
		s = &subscriptions{c: c, nodes: make(map[*proxy.Node]*subscriber)}
		for f := range s.names {
			s.names[f] = make(map[string][]*proxy.Node)
		}
		c.subscribed.Store(s)
	}
	c.commands[Local]--
	c.commands[Passed]++
	if strings.Contains(name, "unsubscribe") {
		s.remove(family, name, names)
	} else {
		s.add(family, name, names)
	}
	c.restricted = c.protocol == resp.RESP2 && s.total.Load() > 0
}

// add subscribes to names, or to none of them when a server refuses.
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
	at := make(map[string][]*proxy.Node)
	for _, n := range names {
		if _, has := s.names[family][n]; !has {
			at[n] = s.at(family, n)
		}
	}
	node, err := s.tell(family, verb, at)
	if errors.Is(err, errShardMoved) {
		node, err = s.tellAgain(family, verb, at)
	}
	if err != nil {
		_, _ = s.tell(family, opposite[verb], at)
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
		c.Gone(err)
	}
}

// need notes which connections are needed for what the client listens to but for names
// of a family, and returns an error if one of them is lost.
func (s *subscriptions) need(family proxy.Subscription, but map[string][]*proxy.Node) (lost error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.nodes {
		sub.needed = false
	}
	for f, names := range s.names {
		for name, nodes := range names {
			if _, ends := but[name]; ends && f == int(family) {
				continue
			}
			for _, n := range nodes {
				s.nodes[n].needed = true
			}
		}
	}
	for _, sub := range s.nodes {
		if sub.needed && sub.lost != nil {
			lost = sub.lost
		}
	}
	return lost
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
			at[n] = nodes
		}
	}
	// A connection that is lost has no subscriptions either, and ends the client if it is
	// needed for others.
	_ = s.need(family, at) // one that was lost before has ended it
	_, _ = s.tell(family, verb, at)
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

// tellTogether is tell with one command for each server.
func (s *subscriptions) tellTogether(family proxy.Subscription, verb string, at map[string][]*proxy.Node) (*proxy.Node, error) {
	c := s.c
	ctx, cancel := context.WithTimeout(c.ctx, proxy.DefaultDialTimeout)
	defer cancel()
	of := make(map[*proxy.Node][]string)
	for name, nodes := range at {
		for _, n := range nodes {
			of[n] = append(of[n], name)
		}
	}
	told := make(map[*proxy.Node]*subscriber)
	var failed *proxy.Node
	var why error
	fails := func(n *proxy.Node, err error) {
		if failed == nil {
			failed, why = n, err
		}
	}
	for n, names := range of {
		if s.nodes[n] == nil && opposite[verb] == "" {
			continue // nothing to end
		}
		sub, err := s.subscriber(ctx, n)
		if err == nil {
			raw := resp.AppendCommand(nil, append([]string{verb}, names...)...)
			stop := context.AfterFunc(ctx, sub.d.Close) // a server that is silent may not take all of it
			if err = sub.d.SendExpecting(0, proxy.Expect{Subscription: family, Channels: len(names)}, raw); err == nil {
				sub.d.Flush()
			}
			stop()
		}
		if err != nil {
			fails(n, err)
			continue
		}
		told[n] = sub
	}
	for n, sub := range told {
		select {
		case raw := <-sub.confirmed:
			if to, _ := n.Redirect(raw); to != nil {
				fails(n, errShardMoved)
			} else if len(raw) > 0 {
				fails(n, scriptReply(raw).Err)
			}
		case <-ctx.Done():
			sub.d.Close() // what it confirms later must not be taken for another's
			fails(n, context.Cause(ctx))
		}
	}
	return failed, why
}

// opposite of a command that subscribes.
var opposite = map[string]string{"subscribe": "unsubscribe", "psubscribe": "punsubscribe", "ssubscribe": "sunsubscribe"}

// subscriber returns the connection to a server, made when this is its first use.
func (s *subscriptions) subscriber(ctx context.Context, n *proxy.Node) (*subscriber, error) {
	if sub := s.nodes[n]; sub != nil {
		return sub, nil
	}
	sub := &subscriber{of: s, confirmed: make(chan []byte, 1)}
	d, err := n.Dedicate(ctx, s.c.protocol, sub)
	if err != nil {
		return nil, err
	}
	sub.d = d
	s.nodes[n] = sub
	s.c.srv.stats.dedicated.Add(1)
	return sub, nil
}

// closeUnused closes the connections on which nothing is listened to.
func (s *subscriptions) closeUnused() {
	for n, sub := range s.nodes {
		s.mu.Lock()
		needed := sub.needed
		s.mu.Unlock()
		if !needed {
			sub.end()
			delete(s.nodes, n)
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
func (c *session) endSubscriptions() {
	s := c.subscribed.Load()
	if s == nil {
		return
	}
	for _, sub := range s.nodes {
		sub.end()
	}
	c.subscribed.Store(nil)
	c.restricted = false
}

// appendConfirmation appends what Redis confirms a change with: the name, nil for none,
// and how many channels and patterns there are now, or how many shards.
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

// misplaced reports whether a channel or a pattern is to be listened to elsewhere, as far
// as it has not been asked about the servers of now.
func (s *subscriptions) misplaced(now servers) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == now {
		return false
	}
	s.seen = now
	for family, names := range s.names {
		for name, nodes := range names {
			if s.misplacedAt(proxy.Subscription(family), name, nodes) { //nolint:gosec // at most 3
				return true
			}
		}
	}
	return false
}

// Reply implements proxy.Caller.
func (sub *subscriber) Reply(_ uint64, raw []byte) bool {
	select {
	case sub.confirmed <- bytes.Clone(raw):
	default:
	}
	return false
}

// Flush implements proxy.Caller.
func (sub *subscriber) Flush() { sub.of.c.out.Flush() }

// Push implements proxy.Listener. Confirmations are made here, see appendConfirmation.
func (sub *subscriber) Push(raw []byte) bool {
	if !isMessage(raw) {
		return false
	}
	s := sub.of
	s.mu.Lock()
	defer s.mu.Unlock()
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

// Gone implements proxy.Listener. Messages may be lost, so a client that listened is
// closed, to subscribe anew. One that only asked to has an error.
func (sub *subscriber) Gone(err error) {
	s := sub.of
	s.mu.Lock()
	sub.lost = err
	needed := sub.needed
	s.mu.Unlock()
	if needed && !sub.ended.Load() {
		s.c.Gone(err)
	}
}

// wants reports whether the client is subscribed to what a message is of. The caller
// holds mu.
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

// whileSubscribed answers what comes in RESP2 while messages may come.
func (c *session) whileSubscribed(args [][]byte) {
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

// joinNumsub adds up the subscribers of each channel.
func joinNumsub(dst []byte, j *join) []byte {
	var sum []any
	for _, raw := range j.replies {
		v, _, err := resp.Parse(raw)
		one, ok := v.([]any)
		if err != nil || !ok || sum != nil && len(one) != len(sum) {
			return resp.AppendError(dst, errNumsub.Error())
		}
		if sum == nil {
			sum = one
			continue
		}
		for i := 1; i < len(one); i += 2 {
			a, _ := sum[i].(int64)
			b, _ := one[i].(int64)
			if name, _ := one[i-1].(string); heardEverywhere(name) {
				sum[i] = max(a, b) // a subscriber is on all servers
			} else {
				sum[i] = a + b
			}
		}
	}
	return appendValue(dst, resp.RESP2, sum)
}

var errNumsub = errors.New("ERR redoubt: servers answered with different channels")

// joinMost takes the largest number: patterns are on all servers.
func joinMost(dst []byte, j *join) []byte {
	var most int64
	for _, raw := range j.replies {
		n, ok := resp.ParseInt(bytes.TrimSuffix(raw[1:], []byte("\r\n")))
		if raw[0] != ':' || !ok {
			return resp.AppendError(dst, "ERR redoubt: a server answered with something else than a number")
		}
		most = max(most, n)
	}
	return resp.AppendInt(dst, most)
}
