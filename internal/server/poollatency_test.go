package server_test

import (
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// since returns what has been counted since before, in all and above a bound.
func since(before, now latency.Histogram, above time.Duration) (n, slow uint64, sum time.Duration) {
	for i := range now.Counts {
		n += now.Counts[i] - before.Counts[i]
		if i > 0 && latency.Bounds[i-1] >= above {
			slow += now.Counts[i] - before.Counts[i]
		}
	}
	return n, slow, now.Sum - before.Sum
}

// TestPoolLatency: every command is counted with the time that its server took, and with
// that until its reply was in its place: behind that of a server that stands still.
func TestPoolLatency(t *testing.T) {
	p := startPool(t, 2)
	of := func(i int) latency.Histogram { return p.pool.Nodes()[i].Stats()[resp.RESP2].Latency }
	w := dial(t, p.addr)
	eventually(t, "the pool works", func() bool { return w.do("MSET", "a", "1", "b", "2") == "+OK\r\n" })
	eventually(t, "that is counted", func() bool { n, _, _ := since(latency.Histogram{}, of(1), 0); return n > 0 })
	w.want(bulk("1"), "GET a")
	eventually(t, "and that", func() bool { n, _, _ := since(latency.Histogram{}, of(0), 0); return n > 1 })
	pool, one, two := p.Stats().Latency, of(0), of(1)

	const pause = 60 * time.Millisecond
	p.nodes[1].Pause()
	began := time.Now()
	w.write("*2\r\n$3\r\nGET\r\n$1\r\nb\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n")
	eventually(t, "two are sent", func() bool { return p.pool.Nodes()[1].Stats()[resp.RESP2].InFlight == 2 })
	await.Always(t, pause, "they are not answered", func() bool { return p.pool.Nodes()[1].Stats()[resp.RESP2].InFlight == 2 })
	p.nodes[1].Resume()
	for _, want := range []string{"2", "2", "1"} {
		if got := w.read(); got != bulk(want) {
			t.Fatalf("%q, want %q", got, bulk(want))
		}
	}
	took := time.Since(began)
	eventually(t, "the server's are counted", func() bool { n, _, _ := since(two, of(1), 0); return n == 2 })
	if _, slow, sum := since(two, of(1), 50*time.Millisecond); slow != 2 || sum < 2*pause || sum > 2*took {
		t.Errorf("redis-2: %d slow, %v in all, within %v", slow, sum, took)
	}
	if n, slow, sum := since(one, of(0), 50*time.Millisecond); n != 1 || slow != 0 || sum > took {
		t.Errorf("redis-1: %d, of which %d slow, %v in all, within %v", n, slow, sum, took)
	}
	if n, slow, sum := since(pool, p.Stats().Latency, 50*time.Millisecond); n != 3 || slow != 3 || sum < 3*pause || sum > 3*took {
		t.Errorf("the pool: %d, of which %d slow, %v in all, within %v", n, slow, sum, took)
	}
}
