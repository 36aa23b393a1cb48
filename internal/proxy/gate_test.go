package proxy_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// An outage is an [okayer] that accepts so many connections.
type outage struct {
	okayer

	mu    sync.Mutex
	room  int
	conns []net.Conn
}

func (o *outage) Open(ctx context.Context) (net.Conn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.room == 0 {
		return nil, errors.New("refused")
	}
	o.room--
	conn, err := o.okayer.Open(ctx)
	o.conns = append(o.conns, conn)
	return conn, err
}

func (o *outage) accept(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.room = n
}

// cut ends all connections and refuses new ones.
func (o *outage) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.room = 0
	for _, c := range o.conns {
		_ = c.Close()
	}
	o.conns = nil
}

func TestGate(t *testing.T) { synctest.Test(t, gate) }

// A server that is back is sent no command before BeforeReturn's function has returned, which is
// called when both shared connections stand, or one has stood alone for a second.
func gate(t *testing.T) {
	o := &outage{room: 2}
	pool, err := proxy.NewPool(proxy.PoolOptions{Servers: []proxy.PoolServer{{Server: ring.Server{Name: "one", Weight: 1}, Backend: o}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	node := pool.Nodes()[0]
	var ups []*proxy.Upstream
	for _, p := range []resp.Protocol{resp.RESP2, resp.RESP3} {
		u, err := node.Upstream(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		ups = append(ups, u)
	}
	up := func() (n int) {
		for _, u := range ups {
			if u.Stats().Up {
				n++
			}
		}
		return n
	}
	var calls atomic.Int64
	before := func() {
		if calls.Add(1); up() > 0 {
			t.Error("commands pass before the function is called")
		}
	}
	down := func() {
		t.Helper()
		o.cut()
		await.Advance(2 * time.Second)
		if up() > 0 {
			t.Fatal("the server is not down")
		}
	}
	want := func(what string, up2 int, calls2 int64) {
		t.Helper()
		synctest.Wait()
		if up() != up2 || calls.Load() != calls2 {
			t.Errorf("%s: %d connections pass commands after %d calls; want %d, %d", what, up(), calls.Load(), up2, calls2)
		}
	}

	down()
	node.BeforeReturn(before)
	o.accept(1)
	await.Advance(time.Second - time.Millisecond)
	want("one connection stands", 0, 0)
	o.accept(1)
	await.Advance(500 * time.Millisecond)
	want("both stand", 2, 1)

	down()
	node.BeforeReturn(before)
	o.accept(1)
	await.Advance(1600 * time.Millisecond)
	want("the other does not come", 1, 2)
	o.accept(1)
	await.Advance(time.Second)
	want("it comes later", 2, 2)

	down()
	o.accept(1)
	await.Advance(600 * time.Millisecond)
	want("there is nothing to call", 1, 2)

	down()
	node.BeforeReturn(before)
	node.BeforeReturn(nil)
	o.accept(2)
	await.Advance(600 * time.Millisecond)
	want("there is nothing to call any more", 2, 2)

	down()
	node.BeforeReturn(before)
	o.accept(1)
	await.Advance(600 * time.Millisecond)
	want("one connection stands again", 0, 2)
	node.BeforeReturn(nil)
	want("it need not wait any more", 1, 2)

	// One that waits for the other ends with the pool.
	down()
	node.BeforeReturn(before)
	o.accept(1)
	await.Advance(600 * time.Millisecond)
}
