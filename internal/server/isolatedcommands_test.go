package server_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// narrow are the limits of a server that closes connections soon.
var narrow = []string{"--client-output-buffer-limit", "normal 2mb 0 0", "--proto-max-bulk-len", "1mb"}

// A front is a server in front of narrow ones.
type front struct {
	addr     string
	backends []*redistest.Server
}

func fronts(t *testing.T, run func(t *testing.T, f front)) {
	t.Run("one", func(t *testing.T) {
		r := redistest.Start(t, narrow...)
		_, addr := start(t, r.URL(), func(o *server.Options) { o.Limits.MaxBulk = 64 << 20 })
		run(t, front{addr, []*redistest.Server{r}})
	})
	t.Run("pool", func(t *testing.T) {
		p := startPool(t, 3)
		for _, n := range p.nodes {
			rdb := redis.NewClient(&redis.Options{Addr: n.Addr()})
			defer rdb.Close()
			for _, option := range [][2]string{{"client-output-buffer-limit", "normal 2097152 0 0"}, {"proto-max-bulk-len", "1mb"}} {
				if err := rdb.ConfigSet(t.Context(), option[0], option[1]).Err(); err != nil {
					t.Fatal(err)
				}
			}
			// The server is asked anew, and only that is in its statistics.
			if err := rdb.ConfigResetStat(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			if err := rdb.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
				t.Fatal(err)
			}
		}
		run(t, front{p.addr, p.nodes})
	})
}

// TestOneClientDoesNotCutAnothersConnection has a client ask for what makes Redis close a
// connection, beside clients that must not notice.
func TestOneClientDoesNotCutAnothersConnection(t *testing.T) {
	fronts(t, func(t *testing.T, f front) {
		attacker := dial(t, f.addr)
		part := strings.Repeat("x", 900<<10)
		var mget []string
		for i := range 9 {
			mget = append(mget, fmt.Sprintf("{t}%d", i))
		}
		await.Soon(t, "the servers are asked for their limits", func() bool {
			for _, k := range mget {
				if got := attacker.do("SET", k, part); got != "+OK\r\n" {
					return false
				}
			}
			for _, b := range f.backends {
				rdb := redis.NewClient(&redis.Options{Addr: b.Addr()})
				stats, err := rdb.Info(t.Context(), "commandstats").Result()
				rdb.Close()
				if err != nil || strings.Count(stats, "cmdstat_config|get") == 0 {
					return false
				}
			}
			return true
		})
		var stop atomic.Bool
		var asked, wrong atomic.Int64
		var victims sync.WaitGroup
		for i := range 20 {
			w := dial(t, f.addr)
			key := fmt.Sprintf("victim:%d", i)
			victims.Go(func() {
				for n := 1; !stop.Load(); n++ {
					w.sendQuietly("INCR", key)
					w.sendQuietly("SET", key+"s", key)
					w.sendQuietly("GET", key+"s")
					for _, want := range []string{fmt.Sprintf(":%d\r\n", n), "+OK\r\n", bulk(key)} {
						asked.Add(1)
						if got := quietly(w); got != want {
							wrong.Add(1)
							t.Errorf("a victim got %.100q, want %.100q", got, want)
							return
						}
					}
				}
			})
		}
		attack := func(what, want string, args ...string) {
			t.Helper()
			w := dial(t, f.addr)
			w.sendQuietly(args...)
			// The error that a server sends before it closes a connection may get lost.
			if got := quietly(w); !strings.Contains(got, want) && (want != "invalid bulk length" || !strings.Contains(got, "lost before the reply")) {
				t.Errorf("%s: got %.200q, want %q", what, got, want)
			}
			w.conn.Close()
		}
		for range 5 {
			attack("a reply beyond the limit", "lost before the reply", append([]string{"MGET"}, mget...)...)
			attack("a reply of a script", "lost before the reply", "EVAL", "local t={} for i=1,9 do t[i]=redis.call('get',KEYS[1]) end return t", "1", "{t}1")
			attack("a bulk beyond the limit", "invalid bulk length", "SET", "k", strings.Repeat("x", 2<<20))
			attack("many such", "invalid bulk length", "MSET", "{t}a", "1", "{t}b", strings.Repeat("x", 2<<20))
			attack("what is within the limits", "$921600\r\n", "GET", "{t}1")
			attack("a large command within the limits", ":9\r\n", append([]string{"DEL"}, manyKeys()...)...)
			for _, k := range mget {
				attack("SET", "+OK", "SET", k, part)
			}
		}
		stop.Store(true)
		victims.Wait()
		t.Logf("%d replies to victims, %d wrong", asked.Load(), wrong.Load())
	})
}

// manyKeys are names of 2 MB. Nine of them exist.
func manyKeys() []string {
	keys := make([]string, 0, 2009)
	for i := range 9 {
		keys = append(keys, fmt.Sprintf("{t}%d", i))
	}
	for i := range 2000 {
		keys = append(keys, fmt.Sprintf("{t}%01000d", i+10))
	}
	return keys
}

// TestIsolationKeepsTheOrder pipelines small and large commands, which travel on several
// connections.
func TestIsolationKeepsTheOrder(t *testing.T) {
	fronts(t, func(t *testing.T, f front) {
		w := dial(t, f.addr)
		large := make([]string, 1500)
		for i := range large {
			large[i] = fmt.Sprintf("{t}%01000d", i)
		}
		for range 20 {
			w.send("SET", "{t}n", "1")
			w.send("INCR", "{t}n")
			w.send("GET", "{t}n")
			w.send(append([]string{"DEL", "{t}n"}, large...)...)
			w.send("INCR", "{t}n")
			w.send("MGET", "{t}n", "a", "b", "c")
			w.send("INCR", "{t}n")
			w.send("GET", "{t}n")
			w.send("GET", "{t}none")
			w.send("INCR", "{t}n")
			for _, want := range []string{
				"+OK\r\n", ":2\r\n", bulk("2"), ":1\r\n", ":1\r\n", "*4\r\n" + bulk("1") + "$-1\r\n$-1\r\n$-1\r\n", ":2\r\n", bulk("2"), "$-1\r\n", ":3\r\n",
			} {
				w.expect(want)
			}
		}
	})
}

// quietly is wire.next for goroutines that must not end the test.
func quietly(w *wire) string {
	reply, err := w.next()
	if err != nil {
		return err.Error()
	}
	return reply
}

// TestClientGoneBeforeItsTurn kills clients of a pool whose large command waits for the reply to
// an earlier one, and is followed by a small one. The process lives, and others are served.
func TestClientGoneBeforeItsTurn(t *testing.T) {
	p := startPool(t, 1)
	other := dial(t, p.addr)
	other.want("$-1\r\n", "GET k") // the connection is made
	pipeline := resp.AppendCommand(nil, "GET", "k")
	pipeline = resp.AppendCommand(pipeline, "SET", "large", strings.Repeat("x", proxy.LargeCommand))
	pipeline = resp.AppendCommand(pipeline, "GET", "k")
	p.nodes[0].Pause()
	defer p.nodes[0].Resume()
	before := p.Stats().BytesIn
	const many = 10
	var ids []string
	for range many {
		w := dial(t, p.addr)
		ids = append(ids, w.do("CLIENT", "ID"))
		w.writeQuietly(pipeline)
	}
	eventually(t, "all have sent", func() bool { return p.Stats().BytesIn >= before+uint64(many*len(pipeline)) })
	for _, id := range ids {
		other.want(":1\r\n", "CLIENT KILL ID "+strings.Trim(id, ":\r\n"))
	}
	eventually(t, "they are gone", func() bool { return p.Stats().Clients == 1 })
	p.nodes[0].Resume()
	other.want("$-1\r\n", "GET k")
}

// TestClientGoneBeforeItIsIsolated: more clients send large commands than there are connections for
// them. A client that leaves while it waits runs none of them, and nothing behind them.
func TestClientGoneBeforeItIsIsolated(t *testing.T) {
	const most, all = 64, 70
	r := redistest.Start(t, narrow...)
	s, addr := start(t, r.URL())
	upstream := func() proxy.Stats { return s.Stats().Upstreams[0].Stats }
	other := dial(t, addr)
	other.want("$-1\r\n", "GET k")
	r.Pause()
	defer r.Resume()
	var clients []*wire
	for i := range all {
		w := dial(t, addr)
		if i < most {
			w.write("GET k\r\n")
			eventually(t, "it has its turn", func() bool { return upstream().Isolated == i+1 })
		} else {
			w.write("GET k\r\nINCR gone\r\n")
		}
		clients = append(clients, w)
	}
	eventually(t, "the others wait for their turn", func() bool { return upstream().IsolatedWaiting == all-most })
	for _, w := range clients {
		_ = w.conn.Close()
	}
	eventually(t, "nobody waits for a turn", func() bool { u := upstream(); return u.Isolated == most && u.IsolatedWaiting == 0 })
	r.Resume()
	other.want("$-1\r\n", "GET gone")
	eventually(t, "all connections are given back", func() bool { return upstream().Isolated == 0 })
}
