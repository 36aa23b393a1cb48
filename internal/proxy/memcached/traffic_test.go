package memcached

import (
	"net"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/latency"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// TestCounts: what is counted of a server, while it is well, frozen, late, and killed, and
// of the clients.
func TestCounts(t *testing.T) {
	w := newEnv(t, 2, func(o *Options) { o.Timeout, o.FailureLimit = 300*time.Millisecond, 1000 })
	k := w.keysOf(1)
	stats := func() ServerStats { return w.Stats().Servers[0] }
	u := dial(t, w.addr)
	until := func(what string, ok func(s ServerStats) bool) {
		t.Helper()
		await.Until(t, within, what, func() bool { return ok(stats()) })
	}
	u.send("set %s 0 0 1\r\n1\r\n", k[0][0])
	u.want("STORED")
	u.send("get %s\r\nget %s %s\r\n", k[0][0], k[0][0], k[1][0])
	u.want("VALUE " + k[0][0] + " 0 1")
	u.want("1")
	u.want("END")
	u.want("VALUE " + k[0][0] + " 0 1")
	u.want("1")
	u.want("END")
	get := len("get " + k[0][0] + "\r\n")
	s := stats()
	if s.Sent != 3 || s.Answers != 3 || s.SentBytes != uint64(len("set "+k[0][0]+" 0 0 1\r\n1\r\n")+2*get) ||
		s.AnswerBytes != uint64(len("STORED\r\n")+2*len("VALUE "+k[0][0]+" 0 1\r\n1\r\nEND\r\n")) {
		t.Errorf("counted %+v", s)
	}
	if n := w.Stats().Fragments; n != 2 {
		t.Errorf("%d fragments, want 2", n)
	}

	w.servers[0].Pause()
	u.send("get %s\r\nget %s\r\n", k[0][0], k[0][0])
	until("two are in flight", func(s ServerStats) bool {
		return s.InFlight == 2 && s.Queued == 0 && s.InFlightBytes == 2*get
	})
	u.line()
	u.line()
	until("both are late", func(s ServerStats) bool { return s.Timeouts == 2 })
	w.servers[0].Kill()
	until("the connection is lost, and cannot be made", func(s ServerStats) bool { return s.Losses == 1 && s.DialFailures > 0 })
	if s := stats(); s.Answers != 3 || s.InFlight != 0 || s.Lost != 0 || !s.EjectedAt.IsZero() {
		t.Errorf("after the server was killed: %+v", s)
	}

	u.send("quit\r\n")
	u.wantEnd()
	_ = dial(t, w.addr).conn.Close()
	await.Until(t, within, "both ends are counted", func() bool { return w.Stats().EOFs == 2 })
	reset := dial(t, w.addr)
	reset.send("version\r\n")
	reset.line()
	_ = reset.conn.(*net.TCPConn).SetLinger(0)
	_ = reset.conn.Close()
	await.Until(t, within, "a reset is counted", func() bool { return w.Stats().Faults == 1 })
}

// TestCountsLost: commands in flight when the connection is lost, which ejects.
func TestCountsLost(t *testing.T) {
	w := newEnv(t, 2, func(o *Options) { o.Timeout, o.FailureLimit, o.RetryTimeout = -1, 1, time.Minute })
	k := w.keysOf(1)
	u := dial(t, w.addr)
	if got := u.ask("get %s", k[0][0]); got != "END" {
		t.Fatal(got)
	}
	w.servers[0].Pause()
	began := time.Now()
	u.send("get %s\r\nget %s\r\n", k[0][0], k[0][0])
	await.Until(t, within, "both are in flight", func() bool { s := w.Stats().Servers[0]; return s.InFlight-s.Queued == 2 })
	w.servers[0].Kill()
	u.line()
	u.line()
	await.Until(t, within, "they are lost", func() bool { return w.Stats().Servers[0].Lost == 2 })
	await.Until(t, within, "the server is ejected", func() bool { return w.Stats().Servers[0].Ejections == 1 })
	if at := w.Stats().Servers[0].EjectedAt; at.Before(began) || at.After(time.Now()) {
		t.Errorf("ejected at %v, begun at %v", at, began)
	}
}

// TestLatency: every command is counted with the time that its server took, and with
// that since it was read.
func TestLatency(t *testing.T) {
	w := newEnv(t, 1, nil)
	u := dial(t, w.addr)
	if got := u.ask("get a"); got != "END" {
		t.Fatal(got)
	}
	before := w.Stats()
	const pause = 60 * time.Millisecond
	w.servers[0].Pause()
	began := time.Now()
	u.send("get a\r\nget b\r\n")
	await.Until(t, within, "two are sent", func() bool { s := w.Stats().Servers[0]; return s.InFlight-s.Queued == 2 })
	await.Always(t, pause, "they are not answered", func() bool { return w.Stats().Servers[0].InFlight == 2 })
	w.servers[0].Resume()
	u.want("END")
	u.want("END")
	took := time.Since(began)
	now := w.Stats()
	for what, h := range map[string][2]latency.Histogram{
		"server": {before.Servers[0].Latency, now.Servers[0].Latency}, "pool": {before.Latency, now.Latency},
	} {
		n, sum := uint64(0), h[1].Sum-h[0].Sum
		for i := range h[0].Counts {
			if more := h[1].Counts[i] - h[0].Counts[i]; i > 0 && latency.Bounds[i-1] >= 50*time.Millisecond {
				n += more
			} else if more > 0 {
				t.Errorf("%s: %d are counted with at most %v", what, more, latency.Bounds[i])
			}
		}
		if n != 2 || sum < 2*pause || sum > 2*took {
			t.Errorf("%s: %d, %v in all, within %v", what, n, sum, took)
		}
	}
}
