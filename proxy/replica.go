package proxy

import (
	"errors"
	"fmt"

	"github.com/redoubt-go/redoubt/resp"
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
// answers, the same for the same caller as long as it does, or to the server itself when
// none does.
func (n *Node) Reader(p resp.Protocol, caller uint64) (*Upstream, error) {
	count := uint64(len(n.replicas))
	for i := range count {
		if u, err := n.replicas[(caller+i)%count].Upstream(p); err == nil && u.up() {
			return u, nil
		}
	}
	return n.Upstream(p)
}

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
