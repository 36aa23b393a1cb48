package proxy_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// An okayer is a back end that answers every command with OK, or with the reply in says, unless it
// is silent.
type okayer struct {
	open   atomic.Int64 // connections
	silent atomic.Bool
	says   atomic.Pointer[[]byte]
}

func (o *okayer) Open(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	o.open.Add(1)
	go func() {
		defer o.open.Add(-1)
		buf := make([]byte, 64<<10)
		var scanner resp.CommandScanner
		for {
			n, err := far.Read(buf)
			if err != nil {
				return
			}
			for at := 0; at < n && !o.silent.Load(); { // commands come whole
				end, _ := scanner.Next(buf[at:n])
				at += end
				reply := []byte("+OK\r\n")
				if says := o.says.Load(); says != nil {
					reply = *says
				}
				if _, err := far.Write(reply); err != nil {
					return
				}
			}
		}
	}()
	return near, nil
}
func (*okayer) Name() string  { return "okayer" }
func (*okayer) Database() int { return 0 }

func TestExclusive(t *testing.T) { synctest.Test(t, exclusive) }

// Connections that were given back are used again, and closed once nobody has needed
// them for a while; those with clients end with the pool.
func exclusive(t *testing.T) {
	o := &okayer{}
	pool, err := proxy.NewPool(proxy.PoolOptions{Servers: []proxy.PoolServer{{Server: ring.Server{Name: "one", Weight: 1}, Backend: o}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	node := pool.Nodes()[0]
	counts := func(what string, open int64, out, idle int) {
		t.Helper()
		synctest.Wait()
		if gotOut, gotIdle := node.Lent(); o.open.Load() != open || gotOut != out || gotIdle != idle {
			t.Errorf("%s: %d connections, %d with clients, %d idle; want %d, %d, %d", what, o.open.Load(), gotOut, gotIdle, open, out, idle)
		}
	}
	borrow := func() *proxy.Exclusive {
		t.Helper()
		x, err := node.Borrow(t.Context(), resp.RESP2)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := x.Ask(t.Context(), 2, append(slices.Clip(ping), ping...)); string(raw) != "+OK\r\n+OK\r\n" || err != nil {
			t.Errorf("%q, %v", raw, err)
		}
		return x
	}
	const shared = 1
	for range 2 { // the second after all have been closed
		a, b := borrow(), borrow()
		counts("two are borrowed", shared+2, 2, 0)
		a.Return()
		b.Return()
		counts("they are idle", shared+2, 0, 2)
		for range 60 { // one is used again and again
			x := borrow()
			await.Advance(time.Second)
			x.Return()
		}
		counts("the other is closed", shared+1, 0, 1)
		await.Advance(2 * time.Minute)
		counts("nobody has needed one", shared, 0, 0)
	}

	// A reply that doesn't come costs the connection, which nobody gets any more.
	x := borrow()
	o.silent.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if raw, err := x.Ask(ctx, 1, ping); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redoubt.ErrUnknownOutcome) || !errors.Is(x.Fault(), redoubt.ErrUnknownOutcome) {
		t.Errorf("a server that doesn't answer: %q, %v", raw, err)
	}
	x.Return()
	counts("a reply did not come", shared, 0, 0)

	// A pool that is retired waits for its borrowed connections first.
	o.silent.Store(false)
	borrow().Return()
	retiring, err := proxy.NewPool(pool.Options())
	if err != nil {
		t.Fatal(err)
	}
	node = retiring.Nodes()[0]
	last := borrow()
	retired := make(chan error, 1)
	go func() { retired <- retiring.Retire(t.Context()) }()
	await.Advance(10 * time.Second)
	counts("a pool retires", 2*shared+2, 1, 0)
	last.Return()
	if err := <-retired; err != nil {
		t.Error(err)
	}
	counts("a pool has retired", shared+1, 0, 0)
	node = pool.Nodes()[0]

	x = borrow()
	y := borrow()
	y.Return()
	o.silent.Store(true)
	over := make(chan error)
	go func() {
		_, _ = x.Ask(t.Context(), 1, ping)
		over <- x.Fault()
	}()
	counts("one is used, one idle", shared+2, 1, 1)
	_ = pool.Close()
	if err := <-over; !errors.Is(err, redoubt.ErrUnknownOutcome) {
		t.Errorf("the pool was closed: %v", err)
	}
	x.Return()
	counts("the pool is closed", 0, 0, 0)
	if _, err := node.Borrow(t.Context(), resp.RESP2); err == nil {
		t.Error("a connection of a pool that is closed")
	}
}
