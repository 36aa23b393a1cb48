package memcached

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
)

// TestLargestValue: a pool refuses a value early only if no server takes it. A server that
// doesn't say how much it takes may take any value.
func TestLargestValue(t *testing.T) {
	server := func(name string) Server {
		return Server{Server: ring.Server{Name: name, Weight: 1}, Addr: "127.0.0.1:1"}
	}
	g, err := newGroup(Options{Name: "test", MaxValue: 8 << 20, Servers: []Server{server("a"), server("b")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		server, item int
		want         int64
	}{{0, 1 << 20, 1 << 20}, {1, 2 << 20, 2 << 20}, {1, 0, 8 << 20}, {1, 1 << 30, 8 << 20}, {1, 1 << 19, 1 << 20}} {
		g.learn(g.nodes[step.server], step.item)
		if got := g.largest.Load(); got != step.want {
			t.Errorf("after %+v values of %d bytes are taken", step, got)
		}
	}
}

// newLargeEnv is newEnv of one server that takes items of up to 512 MB.
func newLargeEnv(t *testing.T, change func(*Options)) *env {
	t.Helper()
	s := memcachedtest.Start(t, "-I", "512m", "-m", "1024")
	w := &env{servers: []*memcachedtest.Server{s}}
	opts := Options{Name: "test", Servers: []Server{{Server: ring.Server{Name: "s0", Weight: 1}, Addr: s.Addr()}}}
	change(&opts)
	w.open(t, opts)
	return w
}

// TestAnnouncedBytes: a value takes memory as it comes, not as it is announced.
//
// Promise: A value takes memory only as it arrives, whatever length its line announces.
func TestAnnouncedBytes(t *testing.T) {
	w := newLargeEnv(t, func(o *Options) { o.Budget = budget.New(64 << 20) })
	if got := dial(t, w.addr).ask("get a"); got != "END" {
		t.Fatal(got)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const n = 40
	for range n {
		dial(t, w.addr).send("set k 0 0 536870000\r\nx")
	}
	await.Until(t, within, "all has come", func() bool {
		return w.Stats().BytesIn == uint64(len("get a\r\n")+n*len("set k 0 0 536870000\r\nx"))
	})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%d clients that announced 512 MB each took %d bytes", n, took)
	}
	if s := w.Stats(); s.Clients != n+1 || s.Shed != 0 {
		t.Errorf("%+v", s)
	}
}

// TestBudgetOfRequests: one bound holds for all clients' unfinished values together. The pool
// refuses a value beyond it, and the sender's connection goes on after that value. The pool
// disconnects the client with the most when one with less needs room.
//
// Promise: One budget bounds the memory of all clients, answers that wait included.
func TestBudgetOfRequests(t *testing.T) {
	b := budget.New(1 << 20)
	w := newLargeEnv(t, func(o *Options) { o.Budget = b })
	used := func(n int64) {
		t.Helper()
		await.Until(t, within, fmt.Sprintf("%d bytes are held", n), func() bool { return b.Stats().Used >= n })
	}
	u, v, small := dial(t, w.addr), dial(t, w.addr), dial(t, w.addr)
	u.send("set u 0 0 700000\r\n%s", strings.Repeat("u", 500_000))
	used(500_000)
	v.send("set v 0 0 3000000\r\n%s\r\nget v\r\nset v 0 0 3000000 noreply\r\n%s\r\nset v 0 0 1\r\nv\r\n",
		strings.Repeat("get a\r\n", 3000000/7+1)[:3000000], strings.Repeat("v", 3000000))
	for _, l := range []string{"SERVER_ERROR out of memory storing object", "END", "STORED"} {
		v.want(l)
	}
	u.send("%s\r\n", strings.Repeat("u", 200_000))
	u.want("STORED")
	if s := w.Stats(); s.Shed != 0 {
		t.Errorf("%d clients were disconnected", s.Shed)
	}

	u.send("set u 0 0 700000\r\n%s", strings.Repeat("u", 500_000)) // half of what there is
	used(500_000)
	v.send("set v 0 0 500000\r\n%s", strings.Repeat("v", 250_000))
	used(750_000)
	small.send("set s 0 0 300000\r\n%s\r\n", strings.Repeat("s", 300_000))
	small.want("STORED")
	if _, err := io.ReadAll(u.r); w.Stats().Shed != 1 {
		t.Errorf("the largest was not disconnected (%v): %+v", err, b.Stats())
	}
	v.send("%s\r\n", strings.Repeat("v", 250_000))
	v.want("STORED")

	// The pool can't find the end of a line for which there is no room.
	u = dial(t, w.addr)
	v.send("set v 0 0 900000\r\n%s", strings.Repeat("v", 300_000))
	used(300_000)
	u.send("get %s", strings.Repeat("a ", 400_000))
	if got, _ := io.ReadAll(u.r); len(got) > 0 && string(got) != errNoRead {
		t.Errorf("to a line without room came %q", got)
	}
	if got := small.ask("touch s 0"); got != "TOUCHED" {
		t.Error(got)
	}
	await.Until(t, within, "nothing is held for those that are gone", func() bool {
		return b.Stats().Used <= 700<<10 && b.Stats().Peak <= 1<<20
	})
}

// TestBudgetOfTheFirstPart: a command that arrives in part is refused at once if there is no room to keep
// that part.
func TestBudgetOfTheFirstPart(t *testing.T) {
	w := newLargeEnv(t, func(o *Options) { o.Budget = budget.New(8 << 10) })
	c := dial(t, w.addr)
	c.send("set k 0 0 30000\r\n%s", strings.Repeat("v", 10_000))
	c.want("SERVER_ERROR out of memory storing object")
	c.send("%s\r\nget k\r\n", strings.Repeat("v", 20_000))
	c.want("END")
}

// TestBudgetOfAnswers: one bound holds for the answers of all clients that don't read, and
// the pool serves others meanwhile.
//
// Promise: One budget bounds the memory of all clients, answers that wait included.
func TestBudgetOfAnswers(t *testing.T) {
	b := budget.New(2 << 20)
	w := newEnv(t, 1, func(o *Options) { o.Budget, o.SlowClient, o.Timeout = b, time.Minute, -1 })
	u := dial(t, w.addr)
	value := strings.Repeat("v", 200_000)
	u.send("set a 0 0 %d\r\n%s\r\n", len(value), value)
	u.want("STORED")
	// The kernel's buffers are not counted. So many clients ask for more than they can hold.
	for range 30 {
		dial(t, w.addr).send("%s", strings.Repeat("get a\r\n", 100))
	}
	await.Until(t, within, "clients disconnected for others, or refused", func() bool {
		u.send("get a\r\n")
		switch l := u.line(); l {
		case fmt.Sprintf("VALUE a 0 %d", len(value)):
			u.want(value)
			u.want("END")
		case strings.TrimSpace(errNoWrite):
		default:
			t.Fatal(l)
		}
		return w.Stats().Shed > 0
	})
	if s := b.Stats(); s.Peak > s.Limit {
		t.Errorf("%+v", s)
	}
}
