package server_test

import (
	"net"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/server"
)

// TestPoolClientGone: that a client has gone is noticed while a server which doesn't answer
// is asked for what it watches, and the connection that it had is closed.
func TestPoolClientGone(t *testing.T) {
	for name, c := range map[string]struct {
		commands string
		reset    bool // else it may have closed only its sending side, and is waited for
	}{
		"WATCH":   {commands: "WATCH a\r\n"},
		"EXEC":    {commands: "MULTI\r\nSET a 1\r\nEXEC\r\n"},
		"UNWATCH": {commands: "UNWATCH\r\n"},
		"reset":   {commands: "UNWATCH\r\n", reset: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPool(t, 1)
			if !c.reset {
				p.serve(t, p.pool.Options(), func(o *server.Options) { o.WriteTimeout = 100 * time.Millisecond })
			}
			w := dial(t, p.addr)
			w.want("+OK\r\n", "WATCH a")
			p.nodes[0].Pause()
			defer p.nodes[0].Resume()
			before := p.Stats().BytesIn
			w.write(c.commands)
			if c.reset {
				eventually(t, "they are read", func() bool { return p.Stats().BytesIn == before+uint64(len(c.commands)) })
				_ = w.conn.(*net.TCPConn).SetLinger(0)
			}
			_ = w.conn.Close()
			eventually(t, "it is noticed", func() bool { return p.Stats().Clients == 0 && p.Stats().Dedicated == 0 })
		})
	}
}

// TestPoolHalfClosed: a client that has closed its sending side has the replies to what it
// sent before.
func TestPoolHalfClosed(t *testing.T) {
	p := startPool(t, 1)
	p.nodes[0].CLI("SET", "a", "v")
	w := dial(t, p.addr)
	w.write("WATCH a\r\nMULTI\r\nGET a\r\nEXEC\r\nWATCH a\r\nUNWATCH\r\n")
	if err := w.conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"+OK\r\n", "+OK\r\n", "+QUEUED\r\n", array(bulk("v")), "+OK\r\n", "+OK\r\n"} {
		w.expect(want)
	}
	w.expectClosed()
}
