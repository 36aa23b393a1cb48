package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/proxy"
)

// sleep returns after a pause, or when ctx ends.
func sleep(ctx context.Context, pause time.Duration) {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// joinOf returns how the replies to a command of fanOut are joined. In a cluster a client
// has each of its patterns and channels on one node, in front of servers on all of them.
func (p topology) joinOf(name string) func(dst []byte, j *join) []byte {
	switch {
	case p.slots != nil && name == "pubsub numpat":
		return joinSums
	case p.slots == nil && name == "pubsub numsub":
		return joinNumsubMost
	}
	return fanOut[name]
}

// ofSlot returns which part is for the slot of a key.
func (s *split) ofSlot(slots *proxy.Slots, key []byte) int {
	slot := keyslot.Of(key)
	if s.bySlot == nil {
		s.bySlot = new([keyslot.Count]uint16)
	}
	if behind := s.bySlot[slot]; behind > 0 {
		return int(behind) - 1
	}
	s.add(slots.Of(slot)).slot = slot
	s.bySlot[slot] = uint16(len(s.parts)) //nolint:gosec // at most keyslot.Count
	return len(s.parts) - 1
}

// sendAll sends a command about names to their servers, and waits until all have confirmed it or
// failed. It returns the faults. In a cluster the shard channels of one command have one slot.
func (s *subscriptions) sendAll(family proxy.Subscription, verb string, at map[string][]*proxy.Node) map[*proxy.Node]fault {
	if family != proxy.Shards || s.c.target.pool.Load().Slots() == nil {
		return s.sendTogether(family, verb, at)
	}
	slots := make(map[uint16]map[string][]*proxy.Node)
	for name, nodes := range at {
		slot := keyslot.Of([]byte(name))
		if slots[slot] == nil {
			slots[slot] = make(map[string][]*proxy.Node)
		}
		slots[slot][name] = nodes
	}
	faults := make(map[*proxy.Node]fault)
	for _, some := range slots {
		maps.Copy(faults, s.sendTogether(family, verb, some))
	}
	return faults
}

// errShardMoved says that the slot of a shard channel is on another node now.
var errShardMoved = errors.New("the slot of the channel has moved")

// retryElsewhere is sendAll in a cluster after a fault at a node. For shard channels it asks where
// the slot is now, for others it takes any other node. It returns the fault that is left.
func (s *subscriptions) retryElsewhere(family proxy.Subscription, verb string, at map[string][]*proxy.Node, node *proxy.Node, err error) (map[*proxy.Node]fault, *proxy.Node, error) {
	var faults map[*proxy.Node]fault
	for range proxy.MaxRedirects {
		if family != proxy.Shards || !errors.Is(err, errShardMoved) {
			break
		}
		s.sendAll(family, opposite[verb], at)
		sleep(s.c.ctx, proxy.RedirectPause) // the nodes are asked meanwhile
		for n := range at {
			at[n] = s.at(family, n)
		}
		faults = s.sendAll(family, verb, at)
		node, err = fatal(at, faults)
	}
	if family == proxy.Shards {
		return faults, node, err
	}
	failed := map[*proxy.Node]bool{node: true}
	for _, other := range s.c.target.pool.Load().Nodes() {
		if err == nil || failed[other] {
			continue
		}
		for name, nodes := range at {
			if len(nodes) == 1 && failed[nodes[0]] {
				at[name] = []*proxy.Node{other}
			}
		}
		faults = s.sendAll(family, verb, at)
		if node, err = fatal(at, faults); node != nil {
			failed[node] = true
		}
	}
	return faults, node, err
}

// misplacedAt is misplaced for one name. In a cluster any node will do for most.
func (s *subscriptions) misplacedAt(family proxy.Subscription, name string, nodes []*proxy.Node) bool {
	slots := s.c.target.pool.Load().Slots()
	if slots != nil && family != proxy.Shards && !aboutKeys(name) {
		return !slices.Contains(slots.Nodes(), nodes[0])
	}
	return !slices.Equal(nodes, s.at(family, name))
}

// scanNodes is the number of nodes that a cursor can tell apart.
const scanNodes = 1 << 12

// scanCluster is scan in front of a cluster. A cursor has the number that a node keeps for
// as long as this process knows it, since others come and go.
func (c *pooled) scanCluster(args [][]byte) {
	cursor, err := strconv.ParseUint(string(args[1]), 10, 64)
	if err != nil {
		c.fail("ERR invalid cursor")
		return
	}
	if !c.slots.Known() {
		c.fail(unknownNodes)
		return
	}
	from, at := cursor/scanNodes, cursor%scanNodes
	var node *proxy.Node
	next := uint64(0) // 0: there is none
	for _, n := range c.slots.Nodes() {
		switch {
		case n.Order() < at:
		case node == nil:
			node = n
		case next == 0:
			next = n.Order()
		}
	}
	if node == nil { // the rest has left
		c.reply([]byte("*2\r\n$1\r\n0\r\n*0\r\n"))
		return
	}
	if node.Order() != at {
		from = 0
	}
	if at = node.Order(); at >= scanNodes {
		c.fail("ERR redoubt: SCAN goes over the first " + strconv.Itoa(scanNodes) + " nodes that the cluster has had since this process began")
		return
	}
	c.scanOn(args, node, from, func(dst, raw []byte) []byte { return nextCursor(dst, raw, at, scanNodes, next) })
}

// unknownNodes is the answer to what goes to all nodes before they are known.
const unknownNodes = "CLUSTERDOWN redoubt: no node of the cluster has said yet which nodes there are"
