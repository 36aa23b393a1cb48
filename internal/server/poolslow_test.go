package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// TestPoolOwnSlowLog: when a server lets clients wait, the log has the first command that waited, and
// how many others did. It has no quick commands, and no pauses of clients.
func TestPoolOwnSlowLog(t *testing.T) {
	const threshold = 100 * time.Millisecond
	slow := proxy.NewSlowLog(threshold, 2)
	p := startPool(t, 2, func(o *proxy.PoolOptions) { o.SlowLog = slow })
	w := dial(t, p.addr)
	eventually(t, "the pool works", func() bool { return w.do("MSET", "a", "1", "b", "0") == "+OK\r\n" })
	before := slow.Total() // connecting may have taken long
	// frozen sends commands for redis-2 while that is frozen for longer than the threshold.
	frozen := func(commands ...[]string) {
		t.Helper()
		stats := func() proxy.Stats { return p.pool.Nodes()[1].Stats()[resp.RESP2] }
		eventually(t, "nothing is in flight", func() bool { return stats().InFlight == 0 })
		p.nodes[1].Pause()
		var raw []byte
		for _, c := range commands {
			raw = resp.AppendCommand(raw, c...)
		}
		w.write(string(raw))
		eventually(t, "they are in flight", func() bool { return stats().InFlight == len(commands) })
		await.Always(t, threshold+10*time.Millisecond, "they are", func() bool { return stats().InFlight == len(commands) })
		p.nodes[1].Resume()
		for range commands {
			w.read()
		}
	}
	frozen([]string{"INCR", "b"}, []string{"GET", "b"}, []string{"GET", "b"})
	w.want(bulk("1"), "GET a")
	await.Always(t, threshold+10*time.Millisecond, "nobody asks for anything", func() bool { return true })
	w.want(bulk("1"), "GET b")
	got := slow.Latest(10)
	if n := slow.Total() - before; n != 1 || len(got) == 0 {
		t.Fatalf("%d are slow: %+v", n, got)
	}
	s := got[0]
	if strings.Join(s.Args, " ") != "INCR b" || s.Behind != 2 || s.Server != p.pool.Nodes()[1].Backend().Name() ||
		s.Client != w.conn.LocalAddr().String() || s.Took < threshold || s.Took > time.Minute || time.Since(s.Time) > time.Minute {
		t.Errorf("%+v", s)
	}

	// Behind another command in the same flight, long, and in parts for two servers.
	push := []string{"RPUSH", onNode(t, p, 2), strings.Repeat("x", 130)}
	for i := range 40 {
		push = append(push, fmt.Sprint(i))
	}
	frozen(append([]string{"DEL"}, onNode(t, p, 1)), push)
	frozen(push)
	if got = slow.Latest(10); len(got) != 2 || got[0].ID != got[1].ID+1 {
		t.Fatalf("%+v, want the latest 2", got)
	}
	if got := slow.Latest(1); len(got) != 1 || got[0].ID != slow.Total()-1 {
		t.Errorf("Latest(1): %+v", got)
	}
	args := got[0].Args
	if len(args) != 32 || args[2] != strings.Repeat("x", 128)+"... (2 more bytes)" || args[30] != "27" || args[31] != "... (12 more arguments)" {
		t.Errorf("%d arguments: %q", len(args), args)
	}
	frozen([]string{"MGET", "a", "b"})
	if got = slow.Latest(1); strings.Join(got[0].Args, " ") != "mget b" || got[0].Client != w.conn.LocalAddr().String() {
		t.Errorf("%+v", got)
	}
	info := w.do("INFO", "slowlog")
	if !strings.Contains(info, fmt.Sprintf("# Slowlog\r\nslow_commands:%d\r\nslow%d:time=20", slow.Total(), got[0].ID)) ||
		!strings.Contains(info, `,behind=0,command="mget" "b"`) {
		t.Errorf("INFO slowlog: %q", info)
	}
	if info := w.do("INFO", "everything"); strings.Contains(info, "lowlog") {
		t.Errorf("INFO everything: %q", info)
	}
}
