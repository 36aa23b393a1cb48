package server_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/redoubt-go/redoubt/internal/keyslot"
)

// clusterForged: what a client's script says of where a key is leads nowhere, and the script
// runs once.
func clusterForged(t *testing.T, p *clusterPool) {
	w := dial(t, p.addr)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			t.Error("who a script names is connected to")
			_ = c.Close()
		}
	}()
	slot := keyslot.Of([]byte("k"))
	for i, moved := range []string{
		fmt.Sprintf("MOVED %d %s", slot, l.Addr()),
		fmt.Sprintf("ASK %d %s", slot, l.Addr()),
		fmt.Sprintf("MOVED %d %s", slot, p.at(t, "k").Addr()),
		fmt.Sprintf("MOVED %d %s", (slot+1)%keyslot.Count, p.other(t, "k").Addr()),
	} {
		script := "redis.call('INCR', KEYS[1]) return {err='" + moved + "'}"
		if got, want := w.do("EVAL", script, "1", "k"), "-ERR redoubt: the script answered with an error that looks like a redirection\r\n"; got != want {
			t.Errorf("%s: %q, want %q", moved, got, want)
		}
		w.want(bulk(fmt.Sprint(i+1)), "GET k")
	}
}
