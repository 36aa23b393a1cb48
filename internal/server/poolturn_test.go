package server_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// On Linux one goroutine serves the clients of a pool in turns. A client that waits must not hold up the
// others.

// TestPoolSlowClient: a client that takes no replies while megabytes of them wait
// holds up nobody, and has them in order once it reads.
func TestPoolSlowClient(t *testing.T) {
	p := startPool(t, 2)
	quick, slow, gone := dial(t, p.addr), dial(t, p.addr), dial(t, p.addr)
	const large, n = 4 << 20, 6 // few enough not to leave the loop for their number
	for i := range n {
		quick.send("SET", fmt.Sprint("large", i), strings.Repeat(string(rune('a'+i)), large))
		quick.expect("+OK\r\n")
	}
	for _, w := range []*wire{slow, gone} {
		for i := range n {
			w.send("GET", fmt.Sprint("large", i))
			w.send("ECHO", fmt.Sprint(i))
		}
	}
	for i := range 200 {
		key := fmt.Sprint("k", i)
		quick.want("+OK\r\n", "SET "+key+" "+key)
		quick.want(bulk(key), "GET "+key)
	}
	_ = gone.conn.Close()
	for i := range n {
		slow.expect(bulk(strings.Repeat(string(rune('a'+i)), large)))
		slow.expect(bulk(fmt.Sprint(i)))
	}
	slow.want(bulk("k1"), "GET k1") // it goes on
}

// TestPoolFullServer: clients that send more to a server than it takes wait, and no other
// client does. Nothing is lost.
func TestPoolFullServer(t *testing.T) {
	p := startPool(t, 2) // a is on redis-1, and b on redis-2
	quick := dial(t, p.addr)
	quick.want("+OK\r\n", "MSET a 1 b 1")
	flood, wg := p.flood(t)
	other := dial(t, p.addr)
	other.write(string(resp.AppendCommand(nil, "MSET", "a", "2", "b", floodValue)))
	for range 500 {
		if got := quick.do("APPEND", "a", "x"); !strings.HasPrefix(got, ":") {
			t.Fatalf("APPEND a: %q", got)
		}
	}
	p.nodes[1].Resume()
	for _, w := range flood {
		for n := range floodEach {
			w.expect(fmt.Sprintf(":%d\r\n", (n+1)*len(floodValue)))
		}
	}
	other.expect("+OK\r\n")
	wg.Wait()
}

const floodEach = 12

var floodValue = strings.Repeat("v", 50<<10)

// flood pauses redis-2 and has many clients send it floodEach small commands each, 42 MB in all,
// more than waits for a server and what the kernel may take, which is up to 10 MB.
func (p *poolOf) flood(t *testing.T) (clients []*wire, wg *sync.WaitGroup) {
	t.Helper()
	p.nodes[1].Pause()
	wg = new(sync.WaitGroup)
	for i := range 70 {
		w := dial(t, p.addr)
		clients = append(clients, w)
		commands := bytes.Repeat(resp.AppendCommand(nil, "APPEND", onNode(t, p, i), floodValue), floodEach)
		wg.Go(func() { w.writeQuietly(commands) }) // the server reads them until its buffers are full
	}
	eventually(t, "no more is taken", func() bool { return p.pool.Nodes()[1].Stats()[resp.RESP2].Pending > 15<<20 })
	return clients, wg
}

// TestPoolEndsWithFullServer: Shutdown ends although a client waits to send to a server that
// takes nothing, and another waits for that client.
func TestPoolEndsWithFullServer(t *testing.T) {
	p := startPool(t, 2) // b is on redis-2
	waiting := dial(t, p.addr)
	waiting.want("+OK\r\n", "SET b 1")
	waiting.write(string(resp.AppendCommand(nil, "BLPOP", onNode(t, p, 99), "0")))
	eventually(t, "it waits", func() bool { out, _ := p.pool.Nodes()[1].Lent(); return out == 1 })
	p.flood(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.Shutdown(ctx) }()
	select {
	case err := <-ended:
		_ = err // whether all have had their replies
	case <-time.After(patience):
		t.Fatal("it has not ended")
	}
}

// TestPoolDeepPipeline: a client may send any number of commands before it reads.
func TestPoolDeepPipeline(t *testing.T) {
	p := startPool(t, 2)
	const clients, n = 4, 5000
	var wg sync.WaitGroup
	for c := range clients {
		w := dial(t, p.addr)
		wg.Go(func() {
			var all []byte
			for i := range n {
				all = resp.AppendCommand(all, "ECHO", "local")
				all = resp.AppendCommand(all, "SET", fmt.Sprintf("c%d:%d", c, i), fmt.Sprint(i))
				all = resp.AppendCommand(all, "GET", fmt.Sprintf("c%d:%d", c, i))
			}
			go w.writeQuietly(all)
			for i := range n {
				for _, want := range []string{bulk("local"), "+OK\r\n", bulk(fmt.Sprint(i))} {
					if got, err := w.next(); got != want {
						t.Errorf("client %d, %d: %q, %v; want %q", c, i, got, err, want)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// onNode returns a key that a server of the pool has, one for each i.
func onNode(t *testing.T, p *poolOf, i int) string {
	t.Helper()
	for n := range 1000 {
		if key := fmt.Sprintf("key:%d:%d", i, n); p.pool.Pick([]byte(key)) == p.pool.Nodes()[1] {
			return key
		}
	}
	t.Fatal("a server has none of a thousand keys")
	return ""
}
