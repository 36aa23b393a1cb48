package redistest

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Slot returns the hash slot of a key.
func (c *Cluster) Slot(key string) int {
	c.tb.Helper()
	slot, err := c.nodes[0].p.call("CLUSTER", "KEYSLOT", key)
	if err != nil {
		c.tb.Fatalf("redistest: cluster: slot of %q: %v", key, err)
	}
	return int(slot.(int64))
}

// Move moves a slot and its keys from a master to another, in the order that Redis
// prescribes. during, if not nil, is called when clients are sent to and fro: before the
// first key has moved, and after each. Move returns when all nodes agree.
func (c *Cluster) Move(slot int, from, to *Server, during func()) {
	c.tb.Helper()
	if err := c.move(slot, from, to, during); err != nil {
		c.tb.Fatalf("redistest: cluster: moving slot %d: %v", slot, err)
	}
}

func (c *Cluster) move(slot int, from, to *Server, during func()) error {
	number := strconv.Itoa(slot)
	ids := map[*Server]string{}
	for _, s := range []*Server{from, to} {
		id, err := s.text("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ids[s] = id
	}
	setslot := func(s *Server, args ...string) error {
		_, err := s.text(append([]string{"CLUSTER", "SETSLOT", number}, args...)...)
		return err
	}
	if err := setslot(to, "IMPORTING", ids[from]); err != nil {
		return err
	}
	if err := setslot(from, "MIGRATING", ids[to]); err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(to.Addr())
	for {
		if during != nil {
			during()
		}
		v, err := from.p.call("CLUSTER", "GETKEYSINSLOT", number, "1")
		if err != nil {
			return err
		}
		keys, _ := v.([]any)
		if len(keys) == 0 {
			break
		}
		if _, err := from.text("MIGRATE", host, port, keys[0].(string), "0", "10000"); err != nil {
			return err
		}
	}
	for _, s := range c.masters(to, from) {
		if err := setslot(s, "NODE", ids[to]); err != nil {
			return err
		}
	}
	return within(func() error {
		for _, s := range c.masters(to, from) {
			table, err := s.text("CLUSTER", "NODES")
			if err != nil {
				return err
			}
			if !hasSlot(table, ids[to], slot) { // by gossip from before it moved
				return errors.Join(fmt.Errorf("%s has not heard of it", s.Addr()), setslot(s, "NODE", ids[to]))
			}
		}
		return c.agreed()
	})
}

// hasSlot reports whether the node with the id has a slot, by the table of CLUSTER NODES.
func hasSlot(table, id string, slot int) bool {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 8 || f[0] != id {
			continue
		}
		return slices.ContainsFunc(f[8:], func(run string) bool { // 42, 0-5460, or [42-<-node]
			first, last, several := strings.Cut(run, "-")
			if !several {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			return err1 == nil && err2 == nil && from <= slot && slot <= to
		})
	}
	return false
}

// masters returns the nodes that are masters now and answer. It begins with first.
func (c *Cluster) masters(first ...*Server) []*Server {
	all := first
	for _, n := range c.nodes {
		v, _ := n.p.call("ROLE")
		if role, _ := v.([]any); len(role) > 0 && role[0] == "master" && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// agreed returns nil when all masters know each other's epochs. One that doesn't may import
// a slot with an epoch less than that of who had it, and lose it to him by his next word.
func (c *Cluster) agreed() error {
	views := map[string]bool{}
	for _, n := range c.masters() {
		table, err := n.text("CLUSTER", "NODES")
		if err != nil {
			return err
		}
		var view []string
		for line := range strings.Lines(table) {
			if f := strings.Fields(line); len(f) > 6 {
				view = append(view, f[0]+" "+f[6])
			}
		}
		slices.Sort(view)
		views[strings.Join(view, "\n")] = true
	}
	if len(views) > 1 {
		return fmt.Errorf("the nodes have %d views of their epochs", len(views))
	}
	return nil
}
