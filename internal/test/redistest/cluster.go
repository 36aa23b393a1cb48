package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

const (
	slots = 16384
	// nodeTimeout is how long a node of a cluster may be silent until the
	// others take it for failing. Short, so that a failover test is short;
	// long enough for a busy machine.
	nodeTimeout = 2 * time.Second
	// clusterReadyWithin is how long a cluster may take. It takes at least
	// 2 s: for that long a primary refuses writes after it started.
	clusterReadyWithin = 30 * time.Second
)

var nodeArgs = []string{
	"--cluster-enabled", "yes",
	"--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10),
	// A replica takes over however long it was cut off from its primary.
	"--cluster-replica-validity-factor", "0",
}

// A Cluster is a Redis Cluster of redis-server processes.
type Cluster struct {
	tb    testing.TB
	nodes []*Server // the masters first, then the replicas of each in turn
}

// StartCluster runs a cluster of masters, which share the slots evenly, each
// with replicasEach replicas. It returns when every node knows every other,
// all slots are served and all replicas are in sync, after some 2.5 s. The
// nodes are killed when tb ends.
//
// args are options for every node, as in [Start]. Tests of clusters are left to make test-all.
//
// A primary that is silent for 2 s is taken for failing, and one of its
// replicas takes over. With at least three masters, that is: they vote.
func StartCluster(tb testing.TB, masters, replicasEach int, args ...string) *Cluster {
	tb.Helper()
	if masters < 1 || replicasEach < 0 {
		tb.Fatalf("redistest: a cluster of %d masters with %d replicas each", masters, replicasEach)
	}
	slow.Test(tb, "it needs a cluster")
	c := &Cluster{tb: tb, nodes: make([]*Server, masters*(1+replicasEach))}
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i := range c.nodes {
		wg.Go(func() {
			var p *process
			if p, errs[i] = startProcess(slices.Concat(nodeArgs, args)); errs[i] == nil {
				c.nodes[i] = &Server{tb: tb, p: p}
			}
		})
	}
	wg.Wait()
	tb.Cleanup(func() {
		for _, n := range c.nodes {
			if n != nil {
				n.p.remove()
			}
		}
	})
	err := errors.Join(errs...)
	if err == nil {
		err = c.form(masters)
	}
	if err != nil {
		tb.Fatalf("redistest: cluster: %v", err)
	}
	return c
}

// Nodes returns all nodes: the masters first, then the replicas of each in
// turn, as they were when the cluster started.
func (c *Cluster) Nodes() []*Server { return c.nodes }

// Addrs returns the address of every node as host:port, in the order of Nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// URL returns the addresses in the form that go-redis' ParseClusterURL takes:
// redis://host:port?addr=host:port&addr=host:port.
func (c *Cluster) URL() string {
	url := "redis://" + strings.Join(c.Addrs(), "&addr=")
	return strings.Replace(url, "&", "?", 1)
}

// Primary returns the node that serves key now. During a failover it waits for
// the node that takes over.
func (c *Cluster) Primary(key string) *Server {
	c.tb.Helper()
	var owner *Server
	err := within(func() error {
		for _, n := range c.nodes {
			if n.serves(key) {
				owner = n
				return nil
			}
		}
		return errors.New("no node serves the key")
	})
	if err != nil {
		c.tb.Fatalf("redistest: cluster: primary of %q: %v", key, err)
	}
	return owner
}

// serves reports whether s holds itself for the primary of key's slot.
func (s *Server) serves(key string) bool {
	slot, err := s.p.call("CLUSTER", "KEYSLOT", key)
	if err != nil {
		return false
	}
	v, err := s.p.call("CLUSTER", "SLOTS")
	if err != nil {
		return false
	}
	ranges, _ := v.([]any)
	for _, r := range ranges {
		// [first slot, last slot, [host, port, id], replicas…]
		r, _ := r.([]any)
		if len(r) < 3 || slot.(int64) < r[0].(int64) || slot.(int64) > r[1].(int64) {
			continue
		}
		primary, _ := r[2].([]any)
		return len(primary) > 1 && primary[1] == int64(s.p.port)
	}
	return false
}

// form makes one cluster of single nodes.
func (c *Cluster) form(masters int) error {
	for i, n := range c.nodes[:masters] {
		// Epochs of their own, given before they meet: nodes that find out
		// later that they have the same one settle it by gossip.
		if _, err := n.text("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		// Not ADDSLOTSRANGE, which Redis 6.2 lacks.
		add := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * slots / masters; slot < (i+1)*slots/masters; slot++ {
			add = append(add, strconv.Itoa(slot))
		}
		if _, err := n.text(add...); err != nil {
			return err
		}
	}
	for i, n := range c.nodes {
		// Each meets all: by gossip alone it takes seconds.
		for _, other := range c.nodes[:i] {
			if _, err := n.text("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.p.port)); err != nil {
				return err
			}
		}
	}
	replicas := c.nodes[masters:]
	for i, n := range replicas {
		id, err := c.nodes[i*masters/len(replicas)].text("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		err = within(func() error { // until they have met
			_, err := n.text("CLUSTER", "REPLICATE", id)
			return err
		})
		if err != nil {
			return err
		}
	}
	for i, n := range c.nodes {
		err := within(func() error { return n.ready(len(c.nodes), len(replicas)) })
		if err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	return nil
}

// ready returns nil when s serves as a node of a cluster that it knows whole.
func (s *Server) ready(nodes, replicas int) error {
	info, err := s.text("CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return fmt.Errorf("the cluster is not up: %s", info)
	}
	table, err := s.text("CLUSTER", "NODES")
	if err != nil {
		return err
	}
	known, knownReplicas := strings.Count(table, "\n"), strings.Count(table, "slave ")
	if known != nodes || knownReplicas != replicas || strings.Contains(table, "handshake") || strings.Contains(table, "fail") {
		return fmt.Errorf("it does not know all nodes: %s", table)
	}
	role, err := s.text("INFO", "replication")
	if err != nil {
		return err
	}
	if strings.Contains(role, "role:slave") && !strings.Contains(role, "master_link_status:up") {
		return fmt.Errorf("the replica is not in sync: %s", role)
	}
	return nil
}

// text runs a command whose reply is a text.
func (s *Server) text(args ...string) (string, error) {
	v, err := s.p.call(args...)
	if refused, ok := v.(resp.Error); ok {
		err = refused
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	text, _ := v.(string)
	return text, nil
}

// within calls ready until it returns nil, and returns its last error when that
// takes too long.
func within(ready func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(clusterReadyWithin); ; <-tick.C {
		err := ready()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
