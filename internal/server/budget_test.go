package server_test

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// raw sends text on its own connection.
func raw(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	go func() { _, _ = io.WriteString(conn, text) }()
	return conn
}

// TestAnnouncedBytes: what a client announces takes no memory before it comes.
func TestAnnouncedBytes(t *testing.T) {
	each(t, func(t *testing.T, backend redistest.Backend) {
		srv, addr := start(t, backend.URL)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const n = 200
		for i := range n {
			raw(t, addr, []string{"*1048576\r\n", "*2\r\n$3\r\nGET\r\n$536870912\r\nx", "*1048576\r\n$536870912\r\n"}[i%3])
		}
		eventually(t, "all has come", func() bool { return srv.Stats().BytesIn >= n*10 })
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) / n; took > 200<<10 {
			t.Errorf("%d bytes were taken for each", took)
		}
	})
}

// TestBudget: one bound holds for the unfinished commands and the unread replies of all clients
// together, and the server serves others meanwhile.
func TestBudget(t *testing.T) {
	each(t, func(t *testing.T, backend redistest.Backend) {
		b := budget.New(4 << 20)
		srv, addr := start(t, backend.URL, func(o *server.Options) { o.Budget = b })
		w := dial(t, addr)
		ask := func() {
			t.Helper()
			w.want("$3\r\nabc\r\n", "GET small")
		}
		w.want("+OK\r\n", "SET small abc")
		large := strings.Repeat("v", 300_000)
		if got := w.do("SET", "large", large); got != "+OK\r\n" {
			t.Fatal(got)
		}

		// One that would have the most is told so.
		half := fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$9000000\r\n%s", strings.Repeat("x", 8_000_000))
		got, _ := io.ReadAll(raw(t, addr, half))
		if want := "-ERR redoubt: all clients together hold more than maxmemory-clients: the command was not read\r\n"; len(got) > 0 && string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
		ask()

		eventually(t, "that client is gone", func() bool { return srv.Stats().Clients == 1 })
		before := srv.Stats().Accepted

		// The largest of the clients that don't read are closed: the kernel takes less than 30 MB for one.
		const many = 30
		for range many {
			raw(t, addr, strings.Repeat("*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n", 100))
		}
		eventually(t, "clients are closed for what they hold", func() bool {
			ask()
			s := b.Stats()
			if s.Used > s.Limit {
				t.Fatalf("%+v", s)
			}
			now := srv.Stats()
			return now.Accepted == before+many && now.Clients < 1+many
		})
		ask()
		if s := b.Stats(); s.Peak > s.Limit {
			t.Errorf("%+v", s)
		}
	})
}

// TestRepliesOnTheWayAreInTheBudget: a reply that is being made, or read from a server, has to
// have room. If it has none the client gets an error and is served on.
func TestRepliesOnTheWayAreInTheBudget(t *testing.T) {
	each(t, func(t *testing.T, backend redistest.Backend) {
		b := budget.New(4 << 20)
		_, addr := start(t, backend.URL, func(o *server.Options) { o.Budget = b })
		longReplies(t, addr, b)
	})
	t.Run("pool", func(t *testing.T) {
		b := budget.New(4 << 20)
		p, opts := poolServers(t, 3)
		p.serve(t, opts, func(o *server.Options) { o.Budget = b })
		longReplies(t, p.addr, b)
	})
}

func longReplies(t *testing.T, addr string, b *budget.Budget) {
	w := dial(t, addr)
	mget := []string{"MGET"}
	for range 12 {
		mget = append(mget, "large")
	}
	value := strings.Repeat("v", 900_000)
	if got := w.do("SET", "large", value); got != "+OK\r\n" {
		t.Fatal(got)
	}
	if got := w.do("GET", "large"); len(got) < len(value) {
		t.Fatalf("%.200q", got)
	}
	if got := w.do(mget...); !strings.Contains(got, "all clients together hold more than maxmemory-clients") {
		t.Errorf("MGET: %.200q", got)
	}
	w.want("$900000\r\n"+value+"\r\n", "GET large")
	w.want("+OK\r\n", "MULTI")
	for range 12 {
		w.want("+QUEUED\r\n", "GET large")
	}
	if got := w.do("EXEC"); !strings.Contains(got, "all clients together hold more than maxmemory-clients") {
		t.Errorf("EXEC: %.200q", got)
	}
	w.want("$900000\r\n"+value+"\r\n", "GET large")
	eventually(t, "nothing is counted of what was sent", func() bool { return b.Stats().Used < 1<<20 })
	if s := b.Stats(); s.Peak > s.Limit {
		t.Errorf("%+v", s)
	}
}

// TestQueuedCommandsAreInTheBudget: what a pool keeps of transactions until EXEC is in the
// budget. A command without room is refused, and EXEC fails.
func TestQueuedCommandsAreInTheBudget(t *testing.T) {
	b := budget.New(2 << 20)
	p, opts := poolServers(t, 2)
	p.serve(t, opts, func(o *server.Options) { o.Budget = b })
	w := dial(t, p.addr)
	value := strings.Repeat("v", 300_000)
	queueBeyond(t, b, w, "SET", "k", value)
	w.want("+OK\r\n", "SET k v")
}

// queueBeyond queues eight times a command with 300,000 bytes, for which a budget of 2 MiB has no room: one is
// refused, the transaction fails, and nothing is kept of it.
func queueBeyond(t *testing.T, b *budget.Budget, w *wire, command ...string) {
	t.Helper()
	w.want("+OK\r\n", "MULTI")
	refused := 0
	for range 8 {
		if got := w.do(command...); got != "+QUEUED\r\n" {
			refused++
			if !strings.Contains(got, "the command was not queued") {
				t.Errorf("%.200q", got)
			}
		}
	}
	if refused != 1 {
		t.Errorf("%d commands were refused", refused)
	}
	if s := b.Stats(); s.Used > 1<<20 || s.Peak < 1<<20 {
		t.Errorf("%+v: nothing is kept of a transaction that will fail", s)
	}
	w.want("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
}

// TestQueuedAnswersAreInTheBudget: so are the answers that the server makes itself in MULTI.
func TestQueuedAnswersAreInTheBudget(t *testing.T) {
	each(t, func(t *testing.T, backend redistest.Backend) {
		b := budget.New(2 << 20)
		_, addr := start(t, backend.URL, func(o *server.Options) { o.Budget = b })
		w := dial(t, addr)
		key := strings.Repeat("k", 300_000)
		queueBeyond(t, b, w, "COMMAND", "GETKEYS", "LOCK.RELEASE", key, "id")
		for _, end := range []string{"DISCARD", "EXEC"} {
			w.want("+OK\r\n", "MULTI")
			w.want("+QUEUED\r\n", "COMMAND GETKEYS LOCK.RELEASE "+key+" id")
			want := "+OK\r\n"
			if end == "EXEC" {
				want = array(array(bulk(key)))
			}
			w.want(want, end)
		}
		eventually(t, "nothing is kept", func() bool { return b.Stats().Used < 1<<20 })
	})
}

// TestArgumentsOfUnfinishedCommandsAreInTheBudget: what the server notes of each argument counts, too.
func TestArgumentsOfUnfinishedCommandsAreInTheBudget(t *testing.T) {
	each(t, func(t *testing.T, backend redistest.Backend) {
		b := budget.New(64 << 20)
		srv, addr := start(t, backend.URL, func(o *server.Options) { o.Budget = b })
		const args = 100_000 // of six bytes each, and of sixteen in the server
		raw(t, addr, "*1000000\r\n"+strings.Repeat("$0\r\n\r\n", args))
		eventually(t, "all has come", func() bool { return srv.Stats().BytesIn >= 6*args })
		eventually(t, "the arguments are counted", func() bool { return b.Stats().Used >= (6+16)*args })
	})
}

// TestSubscriptionsOfAPoolAreInTheBudget: the names that a client has subscribed to count until it unsubscribes. Without
// room a subscription is refused, and the earlier ones stay.
func TestSubscriptionsOfAPoolAreInTheBudget(t *testing.T) {
	b := budget.New(2 << 20)
	p, opts := poolServers(t, 1)
	p.serve(t, opts, func(o *server.Options) { o.Budget = b })
	w := dial(t, p.addr)
	w.do("HELLO", "3")
	const size, most = 10_000, 300
	name := strings.Repeat("n", size)
	subscribed, got := 0, ""
	for ; subscribed < most; subscribed++ {
		if got = w.do("SUBSCRIBE", fmt.Sprint(subscribed)+name); got[0] == '-' {
			break
		}
	}
	if !strings.HasPrefix(got, "-ERR redoubt: all clients together hold more than maxmemory-clients: the subscription was not made") || subscribed < most/3 {
		t.Errorf("after %d: %.200q", subscribed, got)
	}
	eventually(t, "the names are counted", func() bool { return b.Stats().Used >= int64(subscribed*size) })
	for i := range subscribed {
		w.do("UNSUBSCRIBE", fmt.Sprint(i)+name)
	}
	eventually(t, "nothing is counted of them", func() bool { return b.Stats().Used < 20*size })
	if got := w.do("SUBSCRIBE", name); got[0] == '-' {
		t.Errorf("%.200q", got)
	}
}

// TestClientListHasRoom: CLIENT LIST lists a client as often as its id is given, while the list has room.
func TestClientListHasRoom(t *testing.T) {
	each(t, func(t *testing.T, backend redistest.Backend) {
		b := budget.New(4 << 20)
		_, addr := start(t, backend.URL, func(o *server.Options) { o.Budget = b })
		w := dial(t, addr)
		id := strings.Trim(w.do("CLIENT", "ID"), ":\r\n")
		list := func(times int) string {
			args := []string{"CLIENT", "LIST", "ID"}
			for range times {
				args = append(args, id)
			}
			return w.do(args...)
		}
		if got := list(100); strings.Count(got, "id="+id+" ") != 100 {
			t.Errorf("%.200q", got)
		}
		if got := list(20_000); got != "-ERR redoubt: all clients together hold more than maxmemory-clients: name fewer clients at once\r\n" {
			t.Errorf("%.200q", got)
		}
		if got := list(100); strings.Count(got, "id="+id+" ") != 100 {
			t.Errorf("%.200q", got)
		}
		if s := b.Stats(); s.Peak > s.Limit {
			t.Errorf("%+v", s)
		}
	})
}

// TestIdleClientsGiveBuffersBack: a client that was busy and is idle holds no buffer of replies any
// more but the one of its reader. It takes one or two ticks of the server, of a second.
func TestIdleClientsGiveBuffersBack(t *testing.T) {
	each(t, func(t *testing.T, backend redistest.Backend) {
		b := budget.New(64 << 20)
		_, addr := start(t, backend.URL, func(o *server.Options) { o.Budget = b; o.IdleTimeout = time.Hour })
		const clients, most = 10, 64 << 10
		for range clients {
			w := dial(t, addr)
			w.want("+OK\r\n", "SET k "+strings.Repeat("v", 1000))
			for range 5 {
				w.write(strings.Repeat("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 50))
				for range 50 {
					w.read()
				}
			}
		}
		if s := b.Stats(); s.Used == 0 {
			t.Errorf("%+v: buffers of replies are not counted", s)
		}
		eventually(t, "buffers are given back", func() bool { return b.Stats().Used <= clients*most })
	})
}
