package server

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/proxy"
)

// infoPooled answers INFO: what the pool is, and how its servers do.
func (c *session) infoPooled(args [][]byte) {
	pool := c.pool
	wanted := func(section string) bool {
		return len(args) == 1 || slices.ContainsFunc(args[1:], func(a []byte) bool {
			return bytes.EqualFold(a, []byte(section)) || bytes.EqualFold(a, []byte("all")) ||
				bytes.EqualFold(a, []byte("everything")) || bytes.EqualFold(a, []byte("default"))
		})
	}
	var b strings.Builder
	section := func(name string) bool {
		if !wanted(name) {
			return false
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + name + "\r\n")
		return true
	}
	if section("Clients") {
		st := c.srv.Stats()
		fmt.Fprintf(&b, "connected_clients:%d\r\nmaxclients:%d\r\nmem_clients_normal:%d\r\nmaxmemory_clients:%d\r\n", st.Clients, c.srv.opts.MaxClients, st.Memory.Used, st.Memory.Limit)
	}
	if section("Pool") {
		o := pool.Options()
		fmt.Fprintf(&b, "pool_name:%s\r\n", o.Name)
		if c.slots != nil {
			fmt.Fprintf(&b, "cluster_known:%t\r\nhash_tag:%s\r\n", c.slots.Known(), o.Tag)
		} else {
			fmt.Fprintf(&b, "hash:%s\r\ndistribution:%s\r\nhash_tag:%s\r\nring_digest:%s\r\n", o.Hash, o.Distribution, o.Tag, pool.Digest())
		}
		fmt.Fprintf(&b, "servers:%d\r\n", len(pool.Nodes()))
	}
	if section("Servers") {
		for i, n := range pool.Nodes() {
			ejected, times := n.Ejected()
			if c.slots != nil {
				fmt.Fprintf(&b, "server%d:name=%s,up=%t,slots=%d,%s\r\n", i, n.Name(), n.Up(), c.slots.Count(n), countersOf(n))
				continue
			}
			fmt.Fprintf(&b, "server%d:name=%s,up=%t,ejected=%t,ejections=%d,%s\r\n", i, n.Name(), n.Up(), ejected, times, countersOf(n))
			for j, r := range n.Replicas() {
				fmt.Fprintf(&b, "server%d_replica%d:name=%s,up=%t,%s\r\n", i, j, r.Backend().Name(), r.Up(), countersOf(r))
			}
		}
	}
	// Keys may be secrets: these are only for who asks for them by name.
	named := func(section string) bool {
		return slices.ContainsFunc(args[1:], func(a []byte) bool { return bytes.EqualFold(a, []byte(section)) })
	}
	if named("hotkeys") && section("Hotkeys") {
		c.srv.appendHotKeys(&b)
	}
	if slow := pool.Options().SlowLog; slow != nil && named("slowlog") && section("Slowlog") {
		appendSlow(&b, slow)
	}
	c.text(b.String())
}

// countersOf is what INFO tells of the connections to a server that clients share.
func countersOf(n *proxy.Node) string {
	var sum proxy.Stats
	for _, st := range n.Stats() {
		sum.Add(&st)
	}
	return fmt.Sprintf("connects=%d,losses=%d,waiting=%d,pending_bytes=%d,apart=%d,apart_waiting=%d",
		sum.Connects, sum.Losses, sum.Waiting, sum.Pending, sum.Apart, sum.ApartWaiting)
}
