package server_test

import (
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestTakers: the server knows how many of its clients wait for messages of a queue, in QUEUE.TAKE and as the
// library waits, in BZPOPMIN on the marker. Other waits and clients that are gone don't count.
func TestTakers(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		srv, addr := start(t, b.URL)
		testTakers(t, srv, addr, b.Prefix+"mail")
	})
	t.Run("pool", func(t *testing.T) {
		p := startPool(t, 2, func(o *proxy.PoolOptions) { o.Tag = "{}" })
		testTakers(t, p.Server, p.addr, "mail")
	})
}

func testTakers(t *testing.T, srv *server.Server, addr, name string) {
	marker := "rd:{" + name + "}:queue:wake"
	takers := func(n int) func() bool {
		return func() bool { all := srv.Takers(); return all[marker] == n && len(all) == min(n, 1) }
	}
	if !takers(0)() {
		t.Errorf("at first %v wait", srv.Takers())
	}
	a, b, c, d := dial(t, addr), dial(t, addr), dial(t, addr), dial(t, addr)
	a.send("QUEUE.TAKE", name, "1", "60000", "BLOCK", "0")
	b.send("QUEUE.TAKE", name, "1", "60000", "BLOCK", "0")
	c.send("BZPOPMIN", marker, "0")
	d.send("BZPOPMIN", name, "0")
	eventually(t, "three clients wait", takers(3))
	other := dial(t, addr)
	other.want(":1\r\n", "ZADD "+name+" 1 x")
	_ = d.read()
	_ = b.conn.Close()
	_ = c.conn.Close()
	eventually(t, "one client waits", takers(1))
	if got := other.do("QUEUE.PUT", name, "hello"); got == "" {
		t.Error("no ID")
	}
	_ = taken(t, a.read())
	eventually(t, "no client waits", takers(0))

	// A client that has waited for the marker waits for something else, or once more in QUEUE.TAKE.
	a.send("BZPOPMIN", marker, "0.01")
	_ = a.read()
	a.send("BZPOPMIN", marker+"s", "0")
	b = dial(t, addr)
	b.send("BZPOPMIN", marker, "0.01")
	_ = b.read()
	b.send("QUEUE.TAKE", name, "1", "60000", "BLOCK", "0")
	eventually(t, "one client waits", takers(1))
	c = dial(t, addr)
	c.send("BZPOPMIN", marker, "0.01")
	_ = c.read()
	c.send("XREAD", "BLOCK", "0", "STREAMS", "a stream of "+name, "$")
	d.send("QUEUE.TAKE", name, "1", "60000", "BLOCK", "0")
	eventually(t, "two clients wait", takers(2))
}
