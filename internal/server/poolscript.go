package server

import (
	"bytes"
	"strings"

	"github.com/redoubt-go/redoubt/internal/command"
)

// braces is the hash tag that the keys of extension commands are made for.
const braces = "{}"

// unsafeWhenEjected are the groups of extension commands that promise something
// which a key in two places breaks.
var unsafeWhenEjected = map[string]bool{"lock": true, "semaphore": true, "queue": true, "stock": true, "fence": true}

// extends reports whether an extension command may run here: the keys that it uses must have one
// server, and stay there. A command that the servers have as a module goes to them.
func (c *pooled) extends(h *handler, args [][]byte, raw []byte) bool {
	e, o := h.command, c.pool.Options()
	switch {
	case o.Tag != braces:
		c.reject("ERR redoubt: " + e.Name + " needs a pool with hash_tag: \"{}\", so that the keys which it uses have one server")
		return false
	case c.refusesGroup(e.Name, e.Group):
		return false
	}
	if fault := e.CheckArity(len(args)); fault != "" {
		c.reject(fault)
		return false
	}
	c.srv.stats.extension[h.index].Add(1)
	at := e.Keys(len(args))
	if !e.Module || len(at) == 0 || !c.srv.module(c.ctx) {
		return true
	}
	node := c.oneNode(at, args)
	switch {
	case node == nil:
		c.severalServers(e.Name)
	case c.tx.active && !c.multi.settleOn(e.Name, node, args[at[0]]):
	case c.tx.active:
		c.queue(raw, nil)
	default:
		c.toServer(e.Name, nil, node, raw)
	}
	return false
}

// refusesGroup rejects a command of a group whose promises the pool can't keep.
func (c *pooled) refusesGroup(name, group string) bool {
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
func (c *pooled) refusesScript(k *keySpec, args [][]byte) bool {
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

// script sends a script to the server that has its keys.
func (c *pooled) script(h *handler, args [][]byte, p command.Plan) {
	name := h.command.Name
	more, refused := c.keysOfFenced(h, args)
	if refused != "" {
		c.reject(refused)
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
	case c.tx.active:
		if c.multi.settleOn(name, node, keys[0]) {
			c.as(Rewritten)
			c.queueScript(p)
		}
	case c.chooseNode(nil, node):
		c.as(Rewritten)
		c.sender.script(p)
	}
}

// keysOfFenced returns the keys of the command in FENCE.DO, or why it is refused.
func (c *pooled) keysOfFenced(h *handler, args [][]byte) (keys [][]byte, refused string) {
	inner := fenced(h, args)
	if inner == nil {
		return nil, ""
	}
	k := lookupKeys(inner[0])
	switch {
	case k == nil:
		return nil, unknownCommandError(inner)
	case !k.Takes(len(inner)):
		return nil, "ERR wrong number of arguments for '" + k.name + "' command"
	}
	at, ok := k.positions(nil, inner)
	if !ok || len(at) == 0 || notInPools[k.name] {
		return nil, "ERR redoubt: " + h.command.Name + " runs a command that has a key, which " + strings.ToUpper(k.name) + " has not"
	}
	for _, i := range at {
		keys = append(keys, inner[i])
	}
	return keys, ""
}

// fenced returns the command in FENCE.DO as it will be run, or nil: that may have keys
// which are not FENCE.DO's.
func fenced(h *handler, args [][]byte) [][]byte {
	if h.name != "fence.do" || len(args) < 5 {
		return nil
	}
	return append(bytes.Fields(args[3]), args[4:]...)
}
