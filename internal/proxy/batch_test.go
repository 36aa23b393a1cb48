package proxy_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// A wire is a back end that answers when it is told to.
type wire struct {
	far  net.Conn
	came chan int // bytes, as they come
}

func (w *wire) Open(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	w.far, w.came = far, make(chan int, 1000)
	go func() {
		defer close(w.came)
		buf := make([]byte, 64<<10)
		for {
			n, err := far.Read(buf)
			if err != nil {
				return
			}
			w.came <- n
		}
	}()
	return near, nil
}
func (*wire) Name() string  { return "wire" }
func (*wire) Database() int { return 0 }

var ping = resp.AppendCommand(nil, "PING")

// take waits for n commands that leave together.
func (w *wire) take(t *testing.T, n int) {
	t.Helper()
	select {
	case got := <-w.came:
		if got != n*len(ping) {
			t.Fatalf("%d bytes came together, want %d commands, %d bytes", got, n, n*len(ping))
		}
	case <-time.After(patience):
		t.Fatalf("%d commands did not come", n)
	}
}

// answer replies to n commands.
func (w *wire) answer(t *testing.T, n int) {
	t.Helper()
	if _, err := io.WriteString(w.far, strings.Repeat("+PONG\r\n", n)); err != nil {
		t.Fatal(err)
	}
}

// A pinger sends commands one by one.
type pinger struct {
	u    *proxy.Upstream
	c    *collector
	next uint64
}

func (p *pinger) send(t *testing.T) {
	t.Helper()
	p.next++
	if err := p.u.Send(p.c, p.next, 1, ping); err != nil {
		t.Fatal(err)
	}
	p.u.Flush()
}

// TestFlights: commands that come while two batches are on their way leave together
// once one batch has all its replies, and not before.
func TestFlights(t *testing.T) {
	w := &wire{}
	p := &pinger{u: upstream(t, proxy.Options{Backend: w}), c: newCollector()}
	if err := p.u.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p.send(t)
		w.take(t, 1)
	}
	for range 100 {
		p.send(t)
	}
	if got := p.u.Stats().Pending; got != 100*len(ping) {
		t.Fatalf("%d bytes wait, want those of all 100 commands, %d", got, 100*len(ping))
	}
	w.answer(t, 1)
	w.take(t, 100)
	w.answer(t, 101)
	p.c.want(t, 102, "+PONG\r\n")
}

// Where a round trip is long, nothing waits for another's.
func TestALongLinkTakesAllAtOnce(t *testing.T) { synctest.Test(t, longLinkTakesAllAtOnce) }

func longLinkTakesAllAtOnce(t *testing.T) {
	w := &wire{}
	p := &pinger{u: upstream(t, proxy.Options{Backend: w}), c: newCollector()}
	if err := p.u.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.send(t)
	w.take(t, 1)
	await.Advance(time.Millisecond) // the length of the link
	w.answer(t, 1)
	p.c.want(t, 1, "+PONG\r\n")
	for range 10 {
		p.send(t)
	}
	synctest.Wait()
	if p.u.Stats().Pending > 0 {
		t.Fatal("commands wait for the replies to others")
	}
	w.answer(t, 10)
	p.c.want(t, 11, "+PONG\r\n")
}
