package server_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/randtest"
)

// heap returns how many bytes objects take, dead ones too.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// A client that asks for much and reads slowly gets it all, and never has more
// waiting for it in memory than its limit, whatever serves it.
func TestSlowReaderTakesLittleMemory(t *testing.T) {
	const (
		size  = 256 << 10
		asked = 1024
		most  = 64 << 20 // a quarter of the replies; the limit is a 64th of that
	)
	srv, addr := start(t, engineURL(t), func(o *server.Options) { o.MaxOutput = 1 << 20 })
	for name, addr := range map[string]string{"loop": addr, "plain": alsoPlain(t, srv)} {
		t.Run(name, func(t *testing.T) {
			w := dial(t, addr)
			value := strings.Repeat("v", size)
			w.want("+OK\r\n", "SET k "+value)
			runtime.GC()
			before, peak := heap(), uint64(0)
			now := func() uint64 {
				if heap() > before+most { // a busy machine leaves garbage lying, which nothing holds
					runtime.GC()
				}
				return heap()
			}
			w.write(strings.Repeat(string(resp.AppendCommand(nil, "GET", "k")), asked))
			already, sent, quiet := srv.Stats().BytesOut, uint64(0), 0
			eventually(t, "nothing more is sent or gathered", func() bool {
				last, highest := sent, peak
				sent, peak = srv.Stats().BytesOut-already, max(peak, now())
				if quiet++; sent != last || peak > highest+size {
					quiet = 0
				}
				return quiet > 50
			})
			if sent > asked*size/2 {
				t.Fatalf("%d bytes were sent to a client that reads nothing", sent)
			}
			want, got := []byte(bulk(value)), make([]byte, len(bulk(value)))
			_ = w.conn.SetReadDeadline(time.Now().Add(time.Minute))
			for i := range asked {
				if _, err := io.ReadFull(w.conn, got); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("reply %d: %.40q, %v", i, got, err)
				}
				peak = max(peak, now())
			}
			t.Logf("at most %d MiB more while %d went through", (peak-before)>>20, asked*size>>20)
			if peak > before+most {
				t.Errorf("%d bytes more were in memory, want less than %d", peak-before, most)
			}
			w.want("+PONG\r\n", "PING")
		})
	}
}

// A mixedClient is a client that knows what every reply must be.
type mixedClient struct {
	rng  *rand.Rand
	name string
	next int               // the number of the next command
	has  map[string]string // its keys
	n    int               // its counter
	pool bool              // in front of it: a script needs a key
}

// command returns some command, and its replies.
func (g *mixedClient) command() (raw []byte, replies []string) {
	g.next++
	key := fmt.Sprintf("%s:%d", g.name, g.rng.IntN(4))
	add := func(reply string, args ...string) {
		raw = resp.AppendCommand(raw, args...)
		replies = append(replies, reply)
	}
	get := func() string {
		if v, ok := g.has[key]; ok {
			return bulk(v)
		}
		return "$-1\r\n"
	}
	incr := func() string {
		g.n++
		return ":" + strconv.Itoa(g.n) + "\r\n"
	}
	counter := g.name + ":n"
	switch g.rng.IntN(40) {
	case 0: // takes its own connection
		add("+OK\r\n", "MULTI")
		add("+QUEUED\r\n", "GET", key)
		add("+QUEUED\r\n", "INCR", counter)
		add(array(get(), incr()), "EXEC")
	case 1:
		add(":1\r\n", "RPUSH", g.name+":l", "v")
		add(array(bulk(g.name+":l"), bulk("v")), "BLPOP", g.name+":l", "0")
	case 2: // takes long
		n := 1000 << g.rng.IntN(7)
		add(":"+strconv.Itoa(n)+"\r\n", "EVAL", "local n = 0 for i = 1, ARGV[1] do n = n + 1 end return n", "1", key, strconv.Itoa(n))
	case 3, 4:
		g.has[key] = strings.Repeat(strconv.Itoa(g.next%10), g.rng.IntN(200_000))
		add("+OK\r\n", "SET", key, g.has[key])
	case 5, 6:
		if g.pool {
			add("$6\r\nnobody\r\n", "EVAL", "return 'nobody'", "1", key)
		} else {
			add("$6\r\nnobody\r\n", "EVAL", "return 'nobody'", "0")
		}
	case 7:
		raw = append(raw, "PING\r\n"...)
		replies = append(replies, "+PONG\r\n")
	case 8, 9, 10:
		add(incr(), "INCR", counter)
	case 11, 12, 13, 14:
		add(bulk(strconv.Itoa(g.next)), "ECHO", strconv.Itoa(g.next))
	case 15, 16:
		add("*0\r\n", "LRANGE", g.name+":nothing", "0", "-1")
	case 17, 18, 19, 20, 21, 22, 23, 24, 25, 26:
		g.has[key] = strconv.Itoa(g.next)
		add("+OK\r\n", "SET", key, g.has[key])
	default:
		add(get(), "GET", key)
	}
	return raw, replies
}

// visit connects, sends commands cut anywhere, checks every reply, and leaves in
// one way or another.
func (g *mixedClient) visit(t *testing.T, addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return false
	}
	w := &wire{tb: t, conn: conn}
	defer conn.Close()
	steps := randtest.Watch(t)
	defer steps.End()
	for range 1 + g.rng.IntN(6) {
		var raw []byte
		var want []string
		for range 1 + g.rng.IntN(1<<g.rng.IntN(7)) {
			r, w := g.command()
			raw, want = append(raw, r...), append(want, w...)
		}
		cuts := make([]int, g.rng.IntN(4))
		for i := range cuts {
			cuts[i] = g.rng.IntN(len(raw))
		}
		steps.Begin(func() string { return fmt.Sprintf("%s wants %.500q", g.name, want) })
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, cut := range cuts {
				cut = min(cut, len(raw))
				w.writeQuietly(raw[:cut])
				raw = raw[cut:]
				runtime.Gosched()
			}
			w.writeQuietly(raw)
		})
		for i, reply := range want {
			if got, err := w.next(); got != reply {
				t.Errorf("%s: reply %d of %d: %.60q (%v), want %.60q", g.name, i, len(want), got, err, reply)
				_ = conn.Close()
				wg.Wait()
				return false
			}
		}
		wg.Wait()
	}
	switch g.rng.IntN(4) {
	case 0:
		w.sendQuietly("QUIT")
		if got, err := w.next(); got != "+OK\r\n" {
			t.Errorf("QUIT: %q, %v", got, err)
		}
	case 1: // its last command and its end come together
		w.sendQuietly("ECHO", "last")
		_ = conn.(*net.TCPConn).CloseWrite()
		if got, err := w.next(); got != bulk("last") {
			t.Errorf("the last command: %q, %v", got, err)
		}
	case 2: // a reset, with replies under way
		w.sendQuietly("GET", g.name+":1")
		_ = conn.(*net.TCPConn).SetLinger(0)
		return true
	default:
		return true
	}
	if got, err := w.next(); err == nil {
		t.Errorf("behind the end: %q", got)
	}
	return true
}

// Clients of all kinds come, send in pieces, and go, all at once: each gets its
// own replies in its own order. In a longer form with ENGINE_FAULTS=full.
func TestClientsOfAllKinds(t *testing.T) {
	most := int64(60)
	if os.Getenv("ENGINE_FAULTS") == "full" {
		most *= 60
	}
	srv, addr := start(t, engineURL(t))
	clientsOfAllKinds(t, srv, addr, most, nil)
}

// TestPoolClientsOfAllKinds is TestClientsOfAllKinds in front of a pool. In a longer form
// with PROXY_FAULTS=full.
func TestPoolClientsOfAllKinds(t *testing.T) {
	most := int64(60)
	if os.Getenv("PROXY_FAULTS") == "full" {
		most *= 60
	}
	p := startPool(t, 3, func(o *proxy.PoolOptions) { o.Tag = "{}" })
	clientsOfAllKinds(t, p.Server, p.addr, most, p.pool)
}

func clientsOfAllKinds(t *testing.T, srv *server.Server, addr string, most int64, pool *proxy.Pool) {
	t.Helper()
	connected(t, srv)
	before := descriptors(t)
	var visits atomic.Int64
	var wg sync.WaitGroup
	n := randtest.Seed(t)
	for k := range 24 {
		wg.Go(func() {
			g := &mixedClient{rng: rand.New(rand.NewPCG(n, uint64(k))), name: fmt.Sprintf("{mixedClient%d}", k), has: map[string]string{}, pool: pool != nil}
			for visits.Add(1) <= most && !t.Failed() && g.visit(t, addr) {
			}
		})
	}
	wg.Wait()
	eventually(t, "they have gone", func() bool { return srv.Stats().Clients == 0 })
	kept := func() (n int) { // for others
		if pool == nil {
			return 0
		}
		for _, node := range pool.Nodes() {
			lent, idle := node.Lent()
			if lent > 0 {
				return -1
			}
			n += idle + len(node.Stats())
		}
		return n
	}
	eventually(t, "their descriptors are closed", func() bool { n := kept(); return n >= 0 && descriptors(t) <= before+n })
}
