package server

import (
	"bytes"
	"strings"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/command"
	"github.com/redoubt-go/redoubt/resp"
)

// braces is the hash tag that the keys of extension commands are made for.
const braces = "{}"

// unsafeWhenEjected are the groups of extension commands that promise something
// which a key in two places breaks.
var unsafeWhenEjected = map[string]bool{"lock": true, "semaphore": true, "queue": true, "stock": true, "fence": true}

// extensionPooled runs a command of the table on the server that has its keys.
func (c *session) extensionPooled(h *handler, args [][]byte, raw []byte) {
	e, o := h.command, c.pool.Options()
	switch {
	case o.Tag != braces:
		c.reject("ERR redoubt: " + e.Name + " needs a pool with hash_tag: \"{}\", so that the keys which it uses have one server")
		return
	case c.refusesGroup(e.Name, e.Group):
		return
	}
	if fault := e.CheckArity(len(args)); fault != "" {
		c.reject(fault)
		return
	}
	c.srv.stats.extension[h.index].Add(1)
	if at := e.Keys(len(args)); e.Module && len(at) > 0 && c.srv.module(c.ctx) {
		node := c.oneNode(at, args)
		switch {
		case node == nil:
			c.severalServers(e.Name)
		case c.tx.active && !c.settleOn(e.Name, node, args[at[0]]):
		case c.tx.active:
			c.queue(raw, nil)
		default:
			c.toServer(e.Name, nil, node, raw)
		}
		return
	}
	p := e.Plan(c.srv.env, args)
	var more [][]byte
	if inner := fenced(h, args); inner != nil && p.Err == "" {
		k := lookupKeys(inner[0])
		switch {
		case k == nil:
			c.reject(unknownInPool(inner))
			return
		case !k.takes(len(inner)):
			c.reject("ERR wrong number of arguments for '" + k.name + "' command")
			return
		}
		at, ok := k.positions(nil, inner)
		if !ok || len(at) == 0 || notInPools[k.name] {
			c.reject("ERR redoubt: " + e.Name + " runs a command that has a key, which " + strings.ToUpper(k.name) + " has not")
			return
		}
		for _, i := range at {
			more = append(more, inner[i])
		}
	}
	c.planPooled(e.Name, p, more)
}

// refusesGroup rejects a command of a group whose promises the pool can't keep.
func (c *session) refusesGroup(name, group string) bool {
	switch {
	case c.pool.Scatters():
		c.reject("ERR redoubt: " + name + " " + whereRandom)
	case c.pool.Options().Eject && unsafeWhenEjected[group]:
		c.reject("ERR redoubt: " + name + " is refused where auto_eject_hosts is true: while a server is out of the ring, what it holds would be there twice")
	default:
		return false
	}
	return true
}

// refusesScript rejects a script of Redoubt's library where the pool refuses the commands that
// would run it: EVAL, EVALSHA and SCRIPT LOAD of it.
func (c *session) refusesScript(k *keySpec, args [][]byte) bool {
	var find func([]byte) (command.ScriptInfo, bool)
	which := args[len(args)-1]
	switch k.name {
	case "evalsha", "evalsha_ro":
		find, which = command.LookupScript, args[1]
	case "eval", "eval_ro":
		find, which = command.LookupScriptSource, args[1]
	case "script":
		if len(args) != 3 || !bytes.EqualFold(args[1], []byte("LOAD")) {
			return false
		}
		find = command.LookupScriptSource
	default:
		return false
	}
	if !c.pool.Scatters() && !c.pool.Options().Eject {
		return false
	}
	s, ok := find(which)
	return ok && c.refusesGroup(strings.ToUpper(k.name)+" of "+s.Name, s.Group)
}

// fenced returns the command in FENCE.DO as it will be run, or nil: that may have keys
// which are not FENCE.DO's.
func fenced(h *handler, args [][]byte) [][]byte {
	if h.name != "fence.do" || len(args) < 5 {
		return nil
	}
	return append(bytes.Fields(args[3]), args[4:]...)
}

// planPooled is run in front of a pool, with more keys than the plan says.
func (c *session) planPooled(name string, p command.Plan, more [][]byte) {
	if p.Wait != nil && !c.tx.active {
		c.commands[Local]--
		c.run(p)
		return
	}
	if p.Wait != nil {
		p = p.Instead()
	}
	if p.Err != "" {
		if c.tx.active {
			c.queueAnswer(resp.AppendError(nil, p.Err))
			return
		}
		c.fail(p.Err)
		return
	}
	keys := make([][]byte, len(p.Cmd.Keys), len(p.Cmd.Keys)+len(more))
	for i, k := range p.Cmd.Keys {
		keys[i] = []byte(k)
	}
	keys = append(keys, more...)
	at := make([]int, len(keys))
	for i := range at {
		at[i] = i
	}
	node := c.oneNode(at, keys)
	switch {
	case node == nil:
		c.severalServers(name)
	case c.tx.active && !c.settleOn(name, node, keys[0]):
	case c.tx.active || c.routeTo(nil, node):
		c.commands[Local]--
		c.run(p)
	}
}

// poolClient returns the client that extension commands wait and take things back with,
// or nil where they are refused.
func poolClient(s *Server, o Options) (*redoubt.Client, error) {
	if o.Pool.Options().Tag != braces {
		return nil, nil //nolint:nilnil // there need not be one
	}
	s.poolConn = &poolConn{s: s}
	// The pool itself finds out which of its servers are down.
	return redoubt.New(s.poolConn, redoubt.Options{DownAfter: -1})
}
