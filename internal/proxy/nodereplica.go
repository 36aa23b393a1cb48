package proxy

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// addReplicas makes nodes of the replicas of a server. They have no place in the ring,
// and their failures are not the server's.
func (n *Node) addReplicas(replicas []Backend) {
	for _, b := range replicas {
		n.replicas = append(n.replicas, &Node{pool: n.pool, server: n.server, backend: b, replica: true})
	}
}

// Replicas returns the server's replicas in the order of the options.
func (n *Node) Replicas() []*Node { return n.replicas }

// Reader returns the shared connection for commands that only read: to a replica that
// answers and has its server's data, the same for the same caller as long as it does, or to
// the server itself when none does.
func (n *Node) Reader(p resp.Protocol, caller uint64) (*Upstream, error) {
	count := uint64(len(n.replicas))
	for i := range count {
		r := n.replicas[(caller+i)%count]
		if r.role.stale.Load() {
			continue
		}
		if u, err := r.Upstream(p); err == nil && u.up() {
			return u, nil
		}
	}
	return n.Upstream(p)
}

// roleInterval is how often replicas are asked whether they have their server's data still.
const roleInterval = time.Second

// A role is what a replica has said about itself on a connection. It is the ReplyHandler of ROLE.
type role struct {
	stale atomic.Bool // it doesn't follow its server, or has not said so in time
	asked atomic.Bool // and has not answered yet
}

// askRole asks a replica for its role, if there is a connection to it. When that is made
// it is asked, too.
func (n *Node) askRole() {
	for i := range n.upstreams {
		u := n.upstreams[i].Load()
		if u == nil || !u.up() {
			continue
		}
		if !n.role.asked.CompareAndSwap(false, true) {
			n.role.stale.Store(true)
			return
		}
		if u.TrySend(&n.role, 0, 1, askRole) != nil {
			n.role.asked.Store(false)
			continue
		}
		u.FlushNow()
		return
	}
}

var askRole = resp.AppendCommand(nil, "ROLE")

// Reply implements [ReplyHandler].
func (r *role) Reply(_ uint64, raw []byte) bool {
	v, _, err := resp.Parse(raw)
	r.stale.Store(err != nil || synchronised(v) != nil)
	r.asked.Store(false)
	return false
}

// Flush implements [ReplyHandler].
func (r *role) Flush() {}

// synchronised returns an error unless the answer to ROLE is that of a replica that has
// its server's data. One that has just been started has none, and would say so of each key.
func synchronised(role any) error {
	if r, ok := role.([]any); ok && len(r) >= 4 && fmt.Sprint(r[0]) == "slave" {
		if state := fmt.Sprint(r[3]); state != "connected" {
			return fmt.Errorf("the replica has not got its data yet: its state is %s", state)
		}
		return nil
	}
	return errors.New("it is no replica")
}
