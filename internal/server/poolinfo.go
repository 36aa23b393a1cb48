package server

import (
	"bytes"
	"cmp"
	"crypto/sha1" //nolint:gosec // nothing is secured by it
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// info answers INFO: what the pool is, and how its servers do.
func (c *pooled) info(args [][]byte) {
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
	// Keys may be secrets, so INFO shows these sections only when asked for them by name.
	named := func(section string) bool {
		return slices.ContainsFunc(args[1:], func(a []byte) bool { return bytes.EqualFold(a, []byte(section)) })
	}
	if named("hotkeys") && section("Hotkeys") {
		c.target.appendHotKeys(&b)
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
	return fmt.Sprintf("connects=%d,losses=%d,waiting=%d,pending_bytes=%d,isolated=%d,isolated_waiting=%d",
		sum.Connects, sum.Losses, sum.Waiting, sum.Pending, sum.Isolated, sum.IsolatedWaiting)
}

// joinServers makes the section Server of INFO of the servers' own. Its run_id stands for all
// processes and for the ring, so that it changes when a cursor of SCAN comes to mean nothing. In
// front of a cluster there is none: slots on their way would not show in it.
func joinServers(dst []byte, p resp.Protocol, j *join, digest string) []byte {
	all, version := sha1.New(), "" //nolint:gosec // nothing is secured by it
	_, _ = io.WriteString(all, digest)
	for _, raw := range j.replies {
		v, _, err := resp.Parse(raw)
		text, _ := v.(string)
		if verbatim, ok := v.(resp.Verbatim); ok {
			text = verbatim.Text
		}
		run := ""
		for line := range strings.Lines(text) {
			switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
			case "run_id":
				run = value
			case "redis_version":
				version = cmp.Or(version, value)
			}
		}
		if err != nil || run == "" {
			return resp.AppendError(dst, "ERR redoubt: a server's INFO has no run_id")
		}
		_, _ = io.WriteString(all, " "+run)
	}
	return resp.AppendVerbatim(dst, p, "txt", fmt.Sprintf("# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nrun_id:%x\r\n", version, all.Sum(nil)))
}
