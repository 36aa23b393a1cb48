package server

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/acl"
	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/proxy"
	"github.com/redoubt-go/redoubt/resp"
)

// inPool reports whether the keys are spread over the servers of a pool.
func (s *Server) inPool() bool { return s.opts.Pool != nil }

// SetPool puts another pool, with the same tag, database and password, in the place of
// the one before, which is returned: commands from now on go to the new one, those of a
// client once it has its replies from the old one. What is in flight is still answered by
// that, so Retire it.
//
// Clients that wait for keys, like BLPOP, get an error, and those that subscribed are
// closed, to do so anew; a transaction with watched keys finds them changed.
func (s *Server) SetPool(p *proxy.Pool) (old *proxy.Pool) {
	old = s.pool.Swap(p)
	if s.poolConn != nil {
		s.poolConn.follow()
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return old
}

// pooled is what a session in front of a pool has. Its upstream is that of the span
// or of the command at hand.
type pooled struct {
	pool       *proxy.Pool       // the server's when the command at hand came; see follow
	slots      *proxy.Slots      // those of pool, if it is a cluster
	touched    []*proxy.Upstream // sent to since the last flush
	positions  []int             // of keys; scratch
	watched    *watch            // nil: no key is watched
	restricted bool              // subscribed in RESP2, where little else is allowed
	readwrite  bool              // no replica is read
	rights     *acl.User         // nil: the client may do all
	timeout    time.Duration     // of the command at hand, as proxy.Upstream.Within takes it
	known      struct {          // the last command that was looked up, which the next mostly is
		name [maxName]byte
		n    int
		spec *keySpec
	}

	// Of everybody.
	asking     atomic.Pointer[context.CancelFunc] // ends what the session waits for itself
	place      atomic.Pointer[placement]          // nil: it doesn't wait for keys
	subscribed atomic.Pointer[subscriptions]      // nil: it has never subscribed
}

// touch makes u the upstream of what comes next.
func (c *session) touch(u *proxy.Upstream) {
	if u == c.upstream {
		return
	}
	c.sendSpan()
	c.upstream = u
	if !slices.Contains(c.touched, u) {
		c.touched = append(c.touched, u)
	}
}

// flushNodes sends what waits to be sent.
func (c *session) flushNodes() {
	for i, u := range c.touched {
		u.Flush()
		c.touched[i] = nil
	}
	c.touched, c.upstream = c.touched[:0], nil
}

// route makes the server of key that of what comes next. It reports false when the
// command has been answered with an error instead.
func (c *session) route(k *keySpec, key []byte) bool {
	return c.routeTo(k, c.pick(key))
}

// pick returns the server of a key.
func (c *session) pick(key []byte) *proxy.Node {
	if c.slots != nil {
		return c.slots.Pick(key)
	}
	return c.pool.Pick(key)
}

// routeTo is route for a server that is known.
func (c *session) routeTo(k *keySpec, n *proxy.Node) bool {
	u, err := c.upstreamOf(k, n)
	if err != nil {
		c.sendSpan()
		c.fail("ERR redoubt: " + err.Error())
		return false
	}
	c.touch(u)
	return true
}

// routeToAny is route for what any server can answer.
func (c *session) routeToAny() bool {
	c.stepAside() // none may have been asked yet
	u, err := c.pool.Any(c.protocol)
	if err != nil {
		c.fail("ERR redoubt: " + err.Error())
		return false
	}
	c.touch(u)
	return true
}

// follow makes the pool that has taken the place of the session's its own, or the slots of
// a cluster as they are now, once what was sent to those before has been answered: what comes
// next must not overtake it.
func (c *session) follow() (alive bool) {
	next := c.srv.pool.Load()
	if alive = c.settle(); alive {
		c.pool, c.slots, c.timeout = next, next.Slots(), 0
	}
	return alive
}

// dispatchPooled is dispatch in front of a pool.
func (c *session) dispatchPooled(args [][]byte, raw []byte) {
	if (c.pool != c.srv.pool.Load() || c.slots != c.pool.Slots()) && !c.follow() {
		c.quit = true // nobody takes a reply any more
		return
	}
	k := c.lookupKeys(args[0])
	if c.pool.Timed() {
		c.takeTime(k, args[0])
	}
	if c.srv.opts.Strict && c.strictly(k, args) {
		return
	}
	plain := k != nil && c.authed && c.replies == repliesOn && !c.tx.active && !c.restricted && !c.scanner.Inline() && (c.rights == nil || c.mayPass(k, args))
	if plain && k.single && len(args) > 1 {
		c.commands[Passed]++
		c.asks(args[1])
		if c.route(k, args[1]) {
			c.pass(raw)
		}
		return
	}
	c.sendSpan()
	if plain && k.fragments != nil && k.takes(len(args)) {
		c.commands[Local]++ // unless it is sent
		c.fragment(k, args, raw)
		return
	}
	c.mute()
	c.specialPooled(k, args, raw)
	c.muted = false
}

// takeTime gives what comes next the time-out of its command.
func (c *session) takeTime(k *keySpec, name []byte) {
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

// lookupKeys is [lookupKeys], faster for what comes again.
func (c *session) lookupKeys(name []byte) *keySpec {
	if o := &c.known; o.spec == nil || string(o.name[:o.n]) != string(name) {
		k := lookupKeys(name)
		if k != nil {
			o.n, o.spec = copy(o.name[:], name), k
		}
		return k
	}
	return c.known.spec
}

// inPools are the commands that concern the connection, or which any server can
// answer, and are the same in front of a pool.
var inPools = map[string]bool{
	"hello": true, "auth": true, "quit": true, "reset": true, "ping": true, "echo": true, "client": true,
	"command": true, "post": true, "host:": true,
}

// specialPooled is special in front of a pool.
func (c *session) specialPooled(k *keySpec, args [][]byte, raw []byte) {
	c.note(args)
	h := c.srv.lookup(args[0])
	if c.rights != nil && !c.permits(k, h, args) {
		return
	}
	if h != nil && inPools[h.name] && (!c.restricted || !c.authed || h.name == "quit" || h.name == "reset") {
		c.connectionPooled(h, args, raw)
		return
	}
	if !c.authed {
		c.fail("NOAUTH Authentication required.")
		return
	}
	if c.scanner.Inline() {
		raw = resp.AppendCommand(nil, args...)
	}
	c.commands[Local]++ // unless it is sent
	defer func() {
		if v := recover(); v != nil {
			c.panicked(v)
			c.fail("ERR redoubt: internal error")
		}
	}()
	switch {
	case k != nil && !k.takes(len(args)):
		c.reject("ERR wrong number of arguments for '" + k.name + "' command")
	case k != nil && pubsubFamilies[k.name] != 0:
		c.subscription(k.name, args)
	case c.restricted:
		c.whileSubscribed(args)
	case h != nil && h.command != nil:
		if h.command.Module {
			c.stepAside() // a server may be asked whether it has it
		}
		c.extensionPooled(h, args, raw)
	case k == nil:
		c.reject(unknownInPool(args))
	case k.name == "acl":
		c.acl(args)
	case c.refusesScript(k, args):
	case transactional[k.name]:
		c.transact(k.name, k, args, raw)
	case c.tx.active:
		c.queuePooled(k, args, raw)
	case k.name == "select":
		c.selectPooled(args)
	case k.name == "info" && len(args) == 2 && bytes.EqualFold(args[1], []byte("server")) && c.slots == nil:
		digest, p := c.pool.Digest(), c.protocol
		c.toAll(raw, func(dst []byte, j *join) []byte { return joinServers(dst, p, j, digest) })
	case k.name == "info":
		c.infoPooled(args)
	case (k.name == "readonly" || k.name == "readwrite") && c.srv.hasReplicas():
		c.readwrite = k.name == "readwrite"
		c.ok()
	case k.name == "scan" && c.slots != nil:
		c.scanCluster(args)
	case k.name == "scan":
		c.scan(args)
	case k.name == "slowlog":
		c.slowlog(args, raw)
	case everywhere[everywhereName(k, args)] != nil:
		c.toAll(raw, c.joinOf(everywhereName(k, args)))
	default:
		c.keyed(k, args, raw)
	}
}

// connectionPooled runs a command of inPools.
func (c *session) connectionPooled(h *handler, args [][]byte, raw []byte) {
	switch {
	case h.name == "client" && c.authed && len(args) > 1 && acl.Lookup("client|"+string(args[1])) != nil && !clientInPools[strings.ToLower(string(args[1]))]:
		c.refuseClientPooled(strings.ToLower(string(args[1])))
		return
	case h.name == "hello" && (c.watched != nil || c.listening()):
		c.fail("ERR redoubt: HELLO is not supported through a pool while keys are watched or channels subscribed")
		return
	case h.name == "command" && c.authed && !c.routeToAny():
		return
	}
	c.special(h, args, raw)
}

// clientInPools are the subcommands of CLIENT that are answered here.
var clientInPools = map[string]bool{
	"id": true, "getname": true, "setname": true, "setinfo": true, "info": true, "list": true, "kill": true,
	"reply": true, "no-evict": true, "unblock": true,
}

// refuseClientPooled answers a subcommand of CLIENT that is not in clientInPools.
func (c *session) refuseClientPooled(sub string) {
	switch name := "CLIENT " + strings.ToUpper(sub); sub {
	case "tracking", "caching", "getredir", "trackinginfo":
		c.reject("ERR redoubt: " + name + " is not supported through a pool: a server tells of keys on the connection that reads them, which clients share here:" +
			" connect to one of the servers, or to redoubt serve in front of that one alone")
	default:
		c.refusePooled(name)
	}
}

// unknownInPool is the error of Redis, for what no pool knows.
func unknownInPool(args [][]byte) string {
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

// refusePooled answers a command of Redis that a pool doesn't have, as Redis does one
// that it doesn't have, and says why.
func (c *session) refusePooled(name string) {
	c.reject("ERR unknown command '" + name + "': it is not supported through a pool: connect to one of its servers for it")
}

// keyed sends a command to the one server that has all of its keys.
func (c *session) keyed(k *keySpec, args [][]byte, raw []byte) {
	if k.fragments != nil {
		c.fragment(k, args, raw)
		return
	}
	if notInPools[k.name] {
		c.refusePooled(strings.ToUpper(k.name))
		return
	}
	at, ok := k.positions(c.positions[:0], args)
	c.positions = at
	c.asksAll(at, args)
	if ok && c.scriptOfMany(k, at) {
		c.fail("ERR redoubt: " + strings.ToUpper(k.name) + " " + manyNeedTag)
		return
	}
	if !ok || len(at) == 0 {
		if k.movable != nil {
			c.fail("ERR redoubt: " + strings.ToUpper(k.name) + " has no key here that says to which server of the pool it belongs")
		} else {
			c.refusePooled(strings.ToUpper(k.name))
		}
		return
	}
	if blocking[k.name] || (k.name == "xread" || k.name == "xreadgroup") && blocks(args[1:]) {
		if node := c.nodeOf(k.name, at, args); node != nil {
			keys := make([][]byte, len(at))
			for i, p := range at {
				keys[i] = args[p]
			}
			c.block(keys, node, raw)
		}
		return
	}
	c.toServer(k.name, k, c.oneNode(at, args), raw)
}

// manyNeedTag is why a script is refused.
const manyNeedTag = "with several keys needs a pool with hash_tag: \"{}\""

// scriptOfMany reports whether a command is a script with keys of which nothing says
// that they stay together.
func (c *session) scriptOfMany(k *keySpec, at []int) bool {
	switch k.name {
	case "eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro":
		pool := c.pool
		return len(at) > 1 && len(pool.Nodes()) > 1 && pool.Options().Tag != braces
	}
	return false
}

// toServer sends a command to the server that has all of its keys; nil: several have.
func (c *session) toServer(name string, k *keySpec, node *proxy.Node, raw []byte) {
	if node == nil {
		c.severalServers(name)
		return
	}
	if !c.routeTo(k, node) {
		return
	}
	c.commands[Local]--
	c.commands[Passed]++
	c.forward(raw, nil)
}

// blocking are the commands that hold their connection until their keys have something.
var blocking = map[string]bool{
	"blpop": true, "brpop": true, "blmove": true, "brpoplpush": true, "blmpop": true, "bzmpop": true, "bzpopmin": true,
	"bzpopmax": true,
}

// notInPools are commands with a key that say where to send it, or that only servers
// send each other.
var notInPools = map[string]bool{"migrate": true, "pfdebug": true, "restore-asking": true}

// nodeOf returns the server that has all keys, for what more than one command depends
// on. It returns nil when the command has been answered with an error instead.
func (c *session) nodeOf(name string, at []int, args [][]byte) *proxy.Node {
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

func (c *session) severalServers(name string) {
	if c.slots != nil {
		c.reject("CROSSSLOT redoubt: the keys of " + strings.ToUpper(name) + " have several slots of the cluster" + c.srv.tagHint())
		return
	}
	c.reject("CROSSSLOT redoubt: the keys of " + strings.ToUpper(name) + " belong to several servers of the pool" + c.srv.tagHint())
}

// oneNode returns the server that has all keys, or nil when they have several.
func (c *session) oneNode(at []int, args [][]byte) *proxy.Node {
	pool := c.pool
	node := c.pick(args[at[0]])
	if pool.Scatters() {
		return node // as good as any
	}
	if c.slots != nil {
		slot := keyslot.Of(args[at[0]])
		for _, i := range at[1:] {
			if keyslot.Of(args[i]) != slot {
				return nil
			}
		}
		return node
	}
	for _, i := range at[1:] {
		if pool.Pick(args[i]) != node {
			return nil
		}
	}
	return node
}

// tagHint says how to bring keys together.
func (s *Server) tagHint() string {
	tag := s.pool.Load().Options().Tag
	if tag == "" {
		return "; with a hash_tag in its configuration, keys with the same text in it would have one"
	}
	return ": put the same text between " + tag[:1] + " and " + tag[1:] + " into all of them"
}

// selectPooled answers for the one database that a pool uses.
func (c *session) selectPooled(args [][]byte) {
	n, ok := resp.ParseInt(args[1])
	switch home := c.srv.opts.Backend.Database(); {
	case !ok:
		c.fail("ERR invalid DB index")
	case n != int64(home):
		c.fail("ERR redoubt: the pool uses database " + strconv.Itoa(home) + " alone: see redis_db in its configuration")
	default:
		c.ok()
	}
}
