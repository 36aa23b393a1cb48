package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
)

// TestPoolTimeouts: a command has the time-out of its own, longer or shorter than the pool's, or
// none; behind one that is still in time, another is late all the same.
func TestPoolTimeouts(t *testing.T) {
	p := startPool(t, 1, func(o *proxy.PoolOptions) {
		o.Tag, o.Timeout = "{}", 100*time.Millisecond
		o.Timeouts = map[string]time.Duration{"eval": -1, "evalsha": patience, "incr": 50 * time.Millisecond, "lock.info": 60 * time.Millisecond, "exec": patience}
	})
	const late, silent, ran = "-ERR redoubt: no reply from back end redis-1 within ", "-ERR redoubt: back end redis-1 is unreachable: it does not answer in time", ":1\r\n"
	sent := func() uint64 { return p.pool.Nodes()[0].Stats()[2].Requests }
	warm := dial(t, p.addr)
	eventually(t, "it is connected", func() bool { return warm.do("GET", "a") == "$-1\r\n" })
	sha := p.nodes[0].CLI("SCRIPT", "LOAD", "return 1")
	for _, c := range []struct {
		patient    string // waits until the server answers
		other, own string // is late, after its own time
	}{
		{"EVAL|return 1|1|a", "GET a", "100ms"},
		{"EVALSHA|" + sha + "|1|a", "INCR a", "50ms"},
		{"EVAL|return 1|1|a", "LOCK.INFO a", "60ms"},
	} {
		p.nodes[0].Pause()
		first, second, before := dial(t, p.addr), dial(t, p.addr), sent()
		first.send(strings.Split(c.patient, "|")...)
		eventually(t, "it is sent", func() bool { return sent() > before })
		if got := second.do(strings.Fields(c.other)...); !strings.HasPrefix(got, late+c.own) {
			t.Errorf("%s behind %s: %q", c.other, c.patient, got)
		}
		if got := second.do("GET", "a"); !strings.HasPrefix(got, silent) {
			t.Errorf("GET: %q", got)
		}
		p.nodes[0].Resume()
		if got := first.read(); got != ran {
			t.Errorf("%s: %q", c.patient, got)
		}
		eventually(t, "the server is heard again", func() bool { return !strings.HasPrefix(warm.do("EXISTS", "a"), "-") })
	}

	p.nodes[0].Pause()
	both := dial(t, p.addr)
	both.write("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$4\r\nINCR\r\n$1\r\na\r\n") // at once
	for _, own := range []string{"100ms", "50ms"} {
		if got := both.read(); !strings.HasPrefix(got, late+own) {
			t.Errorf("%q, want %s", got, own)
		}
	}
	p.nodes[0].Resume()
	eventually(t, "the server is heard again", func() bool { return !strings.HasPrefix(warm.do("EXISTS", "a"), "-") })

	p.nodes[0].Pause()
	w, before := dial(t, p.addr), sent()
	for _, c := range []string{"MULTI", "INCR n", "EXEC"} {
		w.send(strings.Fields(c)...)
	}
	w.expect("+OK\r\n")
	w.expect("+QUEUED\r\n")
	eventually(t, "EXEC is sent", func() bool { return sent() > before })
	if got := warm.do("INCR", "n"); !strings.HasPrefix(got, late+"50ms") {
		t.Errorf("%q", got)
	}
	p.nodes[0].Resume()
	w.expect(array(":1\r\n"))
}

// TestPoolSilentExec: with watched keys, EXEC on a server that doesn't answer says that the
// transaction may have run, after the time of EXEC's own.
func TestPoolSilentExec(t *testing.T) {
	p := startPool(t, 1, func(o *proxy.PoolOptions) {
		o.Timeout, o.Timeouts = 2*patience, map[string]time.Duration{"exec": 50 * time.Millisecond}
	})
	w := dial(t, p.addr)
	w.want("+OK\r\n", "WATCH a")
	w.want("+OK\r\n", "MULTI")
	w.want("+QUEUED\r\n", "INCR a")
	p.nodes[0].Pause()
	if got := w.do("EXEC"); !strings.HasPrefix(got, "-ERR redoubt: ") || !strings.HasSuffix(got, ": the command may have run\r\n") {
		t.Errorf("%q", got)
	}
	p.nodes[0].Resume()
	eventually(t, "it has run", func() bool { return w.do("GET", "a") == bulk("1") })
}
