package server

import (
	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/proxy"
)

// A topology says which server has a key. A session keeps one topology while its commands are in
// flight: see [pooled.follow].
type topology struct {
	pool  *proxy.Pool
	slots *proxy.Slots // of a cluster; nil: a pool of servers
}

// pick returns the server of a key.
func (p topology) pick(key []byte) *proxy.Node {
	if p.slots != nil {
		return p.slots.Pick(key)
	}
	return p.pool.Pick(key)
}

// slotOf returns the slot of a key; 0 for a pool of servers.
func (p topology) slotOf(key []byte) uint16 {
	if p.slots == nil {
		return 0
	}
	return keyslot.Of(key)
}

// oneNode returns the server of the keys at some positions, or nil if they have several.
func (p topology) oneNode(at []int, args [][]byte) *proxy.Node {
	node := p.pick(args[at[0]])
	if p.pool.Scatters() {
		return node // any server will do
	}
	if p.slots != nil {
		slot := keyslot.Of(args[at[0]])
		for _, i := range at[1:] {
			if keyslot.Of(args[i]) != slot {
				return nil
			}
		}
		return node
	}
	for _, i := range at[1:] {
		if p.pool.Pick(args[i]) != node {
			return nil
		}
	}
	return node
}

// scriptOfMany reports whether a command is a script with several keys, and nothing keeps these keys
// on one server.
func (p topology) scriptOfMany(k *keySpec, at []int) bool {
	return k.RunsScript() && len(at) > 1 && len(p.pool.Nodes()) > 1 && p.pool.Options().Tag != braces
}
