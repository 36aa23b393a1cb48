package server_test

import (
	"strings"
	"testing"
)

// clusterLarge has a node redirect large commands to a node that closes connections for them. The shared
// connections stay.
func clusterLarge(t *testing.T, p *clusterPool) {
	w := dial(t, p.addr)
	slot, from, to := p.cluster.Slot("{z}"), p.at(t, "{z}"), p.other(t, "{z}")
	to.CLI("CONFIG", "SET", "proto-max-bulk-len", "1mb")
	losses := func() (sum uint64) {
		for _, n := range p.pool.Nodes() {
			for _, st := range n.Stats() {
				sum += st.Losses
			}
		}
		return sum
	}
	before := losses()
	large := strings.Repeat("x", 2<<20)
	times := 0
	p.cluster.Move(slot, from, to, func() {
		times++
		if got := w.do("SET", "{z}new", large); got[0] != '-' {
			t.Errorf("SET: %q, want an error of the node that takes no such command", got)
		}
		part := large[:600<<10]
		w.send("HSET", "{z}h", "a", "1")
		w.send("HSET", "{z}h", "a", part, "b", part)
		w.send("HSET", "{z}h", "b", part, "c", part)
		w.send("HDEL", "{z}h", "a", part, part)
		w.send("HLEN", "{z}h")
		w.send("DEL", "{z}h")
		for _, want := range []string{":1\r\n", ":1\r\n", ":1\r\n", ":1\r\n", ":2\r\n", ":1\r\n"} {
			w.expect(want)
		}
	})
	if times == 0 {
		t.Error("nothing was sent while the slot moved")
	}
	if n := losses() - before; n > 0 {
		t.Errorf("%d connections that clients share were lost", n)
	}
}
