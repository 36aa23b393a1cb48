package server_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/faultnet"
)

// TestPoolClientsStayInTheLoop: clients that meet a connection which is not made yet, or a
// change of the servers, wait for it, and have no goroutine each afterwards.
func TestPoolClientsStayInTheLoop(t *testing.T) {
	const clients = 50
	var network *faultnet.Proxy
	p := startPool(t, 1)
	all := make([]*wire, clients)
	ask := func(what string, between func()) {
		t.Helper()
		for _, w := range all {
			w.write("INCR k\r\nINCR k\r\n")
		}
		between()
		for _, w := range all {
			_, _ = w.read(), w.read()
		}
		eventually(t, "none has a goroutine "+what, func() bool {
			stacks := make([]byte, 4<<20)
			return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "server.(*session).loop") == 0
		})
	}
	for i := range all {
		all[i] = dial(t, p.addr)
	}
	ask("at the start", func() {})
	p.change(t, through(t, &network))
	network.Blackhole(faultnet.ToClient)
	before := p.Stats().BytesIn
	ask("after a change", func() {
		eventually(t, "all are read", func() bool { return p.Stats().BytesIn == before+clients*uint64(len("INCR k\r\nINCR k\r\n")) })
		network.Heal()
	})
	ask("then", func() {})
}
