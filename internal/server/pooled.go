package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/hotkeys"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// pooled is the route to the servers of a pool, or to a cluster. Each command goes to the server
// that has its key. A transaction stays here until EXEC. A command that leaves state in a connection
// borrows one.
type pooled struct {
	*session
	sender

	topology // the target's when the command at hand came; see follow

	target     *poolTarget
	asked      keySampler
	multi      poolTransaction
	positions  []int // of keys; scratch
	restricted bool  // subscribed in RESP2, which allows few commands then
	readwrite  bool  // no replica is read

	// Other goroutines use these fields too.
	waitsFor   atomic.Pointer[keyWait]       // nil: it doesn't wait for keys
	subscribed atomic.Pointer[subscriptions] // nil: it has never subscribed
}

// dispatch carries commands whose only key is the first argument, and commands that can be split.
// Before any command it looks for a change of the pool, and for the command's time-out.
func (c *pooled) dispatch(args [][]byte, raw []byte) {
	if (c.pool != c.target.pool.Load() || c.slots != c.pool.Slots()) && !c.follow() {
		c.quit = true // nobody takes a reply any more
		return
	}
	k := c.known.lookup(args[0])
	if c.pool.HasTimeouts() {
		c.takeTime(k, args[0])
	}
	if c.srv.opts.Strict && c.strictly(k, args) {
		return
	}
	plain := k != nil && c.plain() && !c.restricted && (!c.rights.limited() || c.rights.surelyPermit(k, args))
	if plain && k.single && len(args) > 1 {
		c.commands[Passed]++
		c.asked.add(args[1])
		if c.choose(k, args[1]) {
			c.pass(raw)
		}
		return
	}
	if plain && k.fragments != nil && k.Takes(len(args)) {
		c.countLocal() // unless it is sent
		c.fragment(k, args, raw)
		return
	}
	c.special(c.srv.lookup(args[0]), args, raw)
}

// run runs what dispatch doesn't carry.
func (c *pooled) run(h *handler, args [][]byte, raw []byte) {
	k := c.known.lookup(args[0])
	if h != nil && h.command == nil && (!c.restricted || h.name == "quit" || h.name == "reset" || !c.authed) {
		c.connectionCommand(h, args, raw)
		return
	}
	switch {
	case k != nil && !k.Takes(len(args)):
		c.reject("ERR wrong number of arguments for '" + k.name + "' command")
	case k != nil && pubsubFamilies[k.name] != 0:
		c.subscription(k.name, args)
	case c.restricted:
		c.whileSubscribed(args)
	case h != nil && h.command != nil:
		if h.command.Module {
			c.yieldLead() // a server may be asked whether it has it
		}
		c.extension(h, args, raw)
	case k == nil:
		c.reject(unknownCommandError(args))
	case c.refusesScript(k, args):
	case transactional[k.name]:
		c.multi.run(k.name, k, args, raw)
	case c.tx.active:
		c.multi.queueKeyed(k, args, raw)
	case k.name == "select":
		c.selectDatabase(args)
	case k.name == "info":
		c.info(args)
	case (k.name == "readonly" || k.name == "readwrite") && c.target.hasReplicas():
		c.readwrite = k.name == "readwrite"
		c.ok()
	case k.name == "scan" && c.slots != nil:
		c.scanCluster(args)
	case k.name == "scan":
		c.scan(args)
	case k.name == "slowlog":
		c.slowlog(args, raw)
	case k.name == "latency":
		c.latencyHistogram(args, raw)
	case fanOut[fanOutName(k, args)] != nil:
		c.toAll(raw, c.joinOf(fanOutName(k, args)))
	default:
		c.keyed(k, args, raw)
	}
}

// connectionCommand runs a command about the connection, or one that any server can answer.
func (c *pooled) connectionCommand(h *handler, args [][]byte, raw []byte) {
	switch {
	case h.name == "client" && c.authed && len(args) > 1 && acl.Lookup("client|"+string(args[1])) != nil && !clientInPools[strings.ToLower(string(args[1]))]:
		c.refuseClient(strings.ToLower(string(args[1])))
		return
	case h.name == "hello" && (c.multi.watched != nil || c.holdings().listening()):
		c.fail("ERR redoubt: HELLO is not supported through a pool while keys are watched or channels subscribed")
		return
	case h.name == "command" && c.authed && !c.chooseAny():
		return
	}
	c.handle(h, args, raw)
}

// forward sends a command to the server that has been chosen.
func (c *pooled) forward(raw []byte, change translate) {
	if c.tx.active {
		c.queue(raw, change)
		return
	}
	c.sender.forward(raw, change)
}

// carries queues PING and ECHO in a transaction.
func (c *pooled) carries(_ *handler, raw []byte) bool {
	if c.tx.active {
		c.queue(raw, nil)
	}
	return c.tx.active
}

func (c *pooled) abandon(text string) {
	c.multi.take()
	c.multi.unwatch()
	c.fail(text)
}

func (c *pooled) queue(raw []byte, change translate) { c.multi.queue(raw, change) }

func (c *pooled) client(string, [][]byte, []byte) bool           { return false }
func (c *pooled) hello(resp.Protocol, []any) (answered, ok bool) { return false, true }
func (c *pooled) cannotWait() string                             { return "" }
func (c *pooled) occupies() bool                                 { return false }
func (c *pooled) watchesKeys() bool                              { return c.multi.watched != nil }
func (c *pooled) hangUp(time.Time)                               {}
func (c *pooled) forget()                                        { c.positions = nil }
func (c *pooled) kill()                                          {}

func (c *pooled) setProtocol(resp.Protocol) error {
	c.upstream = nil // chosen by the next key
	return nil
}

func (c *pooled) reset() {
	c.multi.forget()
	c.close()
	c.readwrite = false
}

func (c *pooled) close() {
	c.multi.endWatch()
	c.endSubscriptions()
}

func (c *pooled) flush() { c.sender.flush() }

func (c *pooled) gather(to []*proxy.Upstream) ([]*proxy.Upstream, bool) {
	for _, u := range c.touched {
		if !slices.Contains(to, u) {
			to = append(to, u)
		}
	}
	clear(c.touched)
	c.touched, c.upstream = c.touched[:0], nil
	return to, true
}

func (c *pooled) holdings() (h holdings) {
	if s := c.subscribed.Load(); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		for f := range h.subscriptions {
			h.subscriptions[f] = int64(len(s.names[f]))
		}
	}
	return h
}

// unblock reports false: [session.unblock] knows all that waits in front of a pool.
func (c *pooled) unblock(context.Context, proxy.Unblocking) (bool, error) { return false, nil }

// choose sets the server of the next command by its key. It reports false when it has answered the
// command with an error instead.
func (c *pooled) choose(k *keySpec, key []byte) bool { return c.chooseNode(k, c.pick(key)) }

// chooseNode is choose with a given server.
func (c *pooled) chooseNode(k *keySpec, n *proxy.Node) bool {
	u, err := c.upstreamOf(k, n)
	if err != nil {
		c.fail("ERR redoubt: " + err.Error())
		return false
	}
	c.touch(u)
	return true
}

// chooseAny is choose for a command that any server can answer.
func (c *pooled) chooseAny() bool {
	c.yieldLead() // none may have been asked yet
	u, err := c.pool.Any(c.protocol)
	if err != nil {
		c.fail("ERR redoubt: " + err.Error())
		return false
	}
	c.touch(u)
	return true
}

// follow adopts the target's new pool, or the new slots of the cluster. It first waits for the replies
// to all earlier commands, which the next commands must not overtake. It reports false when the client is
// gone.
func (c *pooled) follow() (alive bool) {
	next := c.target.pool.Load()
	if alive = c.settle(); alive {
		c.topology, c.timeout = topology{next, next.Slots()}, 0
	}
	return alive
}

// takeTime sets the time-out of the next command.
func (c *pooled) takeTime(k *keySpec, name []byte) {
	var d time.Duration
	if k != nil {
		d = c.pool.TimeoutOf(k.name)
	} else if h := c.srv.lookup(name); h != nil {
		d = c.pool.TimeoutOf(h.name)
	}
	if d != c.timeout {
		c.sendSpan()
		c.timeout = d
	}
}

// clientInPools are the subcommands of CLIENT that are answered here.
var clientInPools = map[string]bool{
	"id": true, "getname": true, "setname": true, "setinfo": true, "info": true, "list": true, "kill": true,
	"reply": true, "no-evict": true, "unblock": true,
}

// refuseClient answers a subcommand of CLIENT that is not in clientInPools.
func (c *pooled) refuseClient(sub string) {
	switch name := "CLIENT " + strings.ToUpper(sub); sub {
	case "tracking", "caching", "getredir", "trackinginfo":
		c.reject("ERR redoubt: " + name + " is not supported through a pool: a server tells of keys on the connection that reads them, which clients share here:" +
			" connect to one of the servers, or to redoubt serve in front of that one alone")
	default:
		c.refuseCommand(name)
	}
}

// unknownCommandError returns the error of Redis for an unknown command.
func unknownCommandError(args [][]byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ERR unknown command '%.128s', with args beginning with: ", args[0])
	for _, a := range args[1:] {
		if b.Len() > 256 {
			break
		}
		fmt.Fprintf(&b, "'%.128s' ", a)
	}
	return b.String()
}

// refuseCommand answers a command of Redis that a pool doesn't have. It says why in the form of Redis'
// error for unknown commands.
func (c *pooled) refuseCommand(name string) {
	c.reject("ERR unknown command '" + name + "': it is not supported through a pool: connect to one of its servers for it")
}

// keyed sends a command to the one server that has all of its keys.
func (c *pooled) keyed(k *keySpec, args [][]byte, raw []byte) {
	if k.fragments != nil {
		c.fragment(k, args, raw)
		return
	}
	if notInPools[k.name] {
		c.refuseCommand(strings.ToUpper(k.name))
		return
	}
	at, ok := k.positions(c.positions[:0], args)
	c.positions = at
	c.asked.addAll(at, args)
	if ok && c.scriptOfMany(k, at) {
		c.fail("ERR redoubt: " + strings.ToUpper(k.name) + " " + manyNeedTag)
		return
	}
	if !ok || len(at) == 0 {
		if k.Keyed() {
			c.fail("ERR redoubt: " + strings.ToUpper(k.name) + " has no key here that says to which server of the pool it belongs")
		} else {
			c.refuseCommand(strings.ToUpper(k.name))
		}
		return
	}
	if k.waits(args) {
		if node := c.nodeOf(k.name, at, args); node != nil {
			keys := make([][]byte, len(at))
			for i, p := range at {
				keys[i] = args[p]
			}
			c.belongs(unmeasured, func() { c.block(keys, node, raw) })
		}
		return
	}
	c.toServer(k.name, k, c.oneNode(at, args), raw)
}

// manyNeedTag is why a script is refused.
const manyNeedTag = "with several keys needs a pool with hash_tag: \"{}\""

// toServer sends a command to the server of its keys; nil: its keys have several servers.
func (c *pooled) toServer(name string, k *keySpec, node *proxy.Node, raw []byte) {
	if node == nil {
		c.severalServers(name)
		return
	}
	if !c.chooseNode(k, node) {
		return
	}
	c.as(Passed)
	c.forward(raw, nil)
}

// notInPools are commands that name the server for a key, or that only servers send each other.
var notInPools = map[string]bool{"migrate": true, "pfdebug": true, "restore-asking": true}

// nodeOf returns the server of all keys, for a state that lasts longer than one command. It returns nil
// when it has answered the command with an error instead.
func (c *pooled) nodeOf(name string, at []int, args [][]byte) *proxy.Node {
	if c.pool.Scatters() {
		c.reject("ERR redoubt: " + strings.ToUpper(name) + " " + whereRandom)
		return nil
	}
	node := c.oneNode(at, args)
	if node == nil {
		c.severalServers(name)
	}
	return node
}

// whereRandom is why a command is refused where keys have no server of their own.
const whereRandom = "is refused where distribution is random: a key has no server of its own"

func (c *pooled) severalServers(name string) {
	if c.slots != nil {
		c.reject("CROSSSLOT redoubt: the keys of " + strings.ToUpper(name) + " have several slots of the cluster" + c.target.tagHint())
		return
	}
	c.reject("CROSSSLOT redoubt: the keys of " + strings.ToUpper(name) + " belong to several servers of the pool" + c.target.tagHint())
}

// selectDatabase answers for the one database that a pool uses.
func (c *pooled) selectDatabase(args [][]byte) {
	n, ok := resp.ParseInt(args[1])
	switch home := c.target.database(); {
	case !ok:
		c.fail("ERR invalid DB index")
	case n != int64(home):
		c.fail("ERR redoubt: the pool uses database " + strconv.Itoa(home) + " alone: see redis_db in its configuration, or the URL of --backend")
	default:
		c.ok()
	}
}

// upstreamOf returns the connection for a command to a server. A command that only reads goes to a
// replica, if there are any. k is nil for other commands.
func (c *pooled) upstreamOf(k *keySpec, n *proxy.Node) (*proxy.Upstream, error) {
	if k != nil && k.reads && len(n.Replicas()) > 0 && !c.readwrite && c.multi.watched == nil && !c.tx.active {
		return n.Reader(c.protocol, c.id)
	}
	return n.Upstream(c.protocol)
}

// A keySampler counts the keys that a client asks for.
type keySampler struct {
	hotkeys.Sampler
	hot *hotkeys.Sketch
}

func (s *keySampler) add(key []byte) {
	if s.Next() {
		s.hot.Add(key, time.Now())
	}
}

// addAll adds the keys at some positions.
func (s *keySampler) addAll(at []int, args [][]byte) {
	for _, i := range at {
		s.add(args[i])
	}
}
