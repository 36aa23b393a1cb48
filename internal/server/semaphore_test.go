package server_test

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func TestSemaphore(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		srv, addr := start(t, b.URL)
		name := b.Prefix + "s"
		a, o := dial(t, addr), dial(t, addr)
		_ = o.do("HELLO", "3")

		first, fence := held(t, a.do("sem.acquire", name, "2", "60000", "label", "web-1"))
		_, second := held(t, a.do("SEM.ACQUIRE", name, "2", "60000", "ID", "mine"))
		if _, again := held(t, o.do("SEM.ACQUIRE", name, "2", "60000", "OWNER", "mine")); again != second || second <= fence {
			t.Errorf("fences %d and again %d after %d, want the same, and larger", second, again, fence)
		}
		o.want("_\r\n", "SEM.ACQUIRE "+name+" 2 60000")
		a.want("*-1\r\n", "SEM.ACQUIRE "+name+" 2 60000 BLOCK 20")
		o.want(":0\r\n", "SEM.RELEASE "+name+" wrong")
		o.want(":0\r\n", "SEM.EXTEND "+name+" wrong 1000")
		o.want(":1\r\n", "SEM.EXTEND "+name+" mine 120000")
		m, ok := o.value("SEM.INFO", name).(resp.Map)
		if !ok || len(m) != 8 || m[0] != "taken" || m[1] != int64(2) || m[5] != second || m[6] != "waiters" {
			t.Fatalf("SEM.INFO: %#v", m)
		}
		// A client that waited too long leaves the queue after its reply.
		waiting := func(n int64) func() bool {
			return func() bool { return o.value("SEM.INFO", name).(resp.Map)[7] == n }
		}
		eventually(t, "nobody waits", waiting(0))
		if holder, ok := m[3].([]any)[0].(resp.Map); !ok || holder[1] != "web-1" || holder[3] != fence {
			t.Errorf("the first holder: %#v", m[3])
		}

		// One waits, and gets the permit that is given back.
		o.send("SEM.ACQUIRE", name, "2", "60000", "BLOCK", "0", "ID", "waiter")
		eventually(t, "it waits", func() bool { return srv.Stats().Commands[server.Waited] == 2 })
		a.want(":1\r\n", "SEM.RELEASE "+name+" "+first)
		if id, third := held(t, o.read()); id != "waiter" || third <= second {
			t.Errorf("id %q, fence %d after %d", id, third, second)
		}
		a.want(":1\r\n", "SEM.RELEASE "+name+" "+first) // the same answer again
		a.want(":1\r\n", "SEM.RELEASE "+name+" mine")
		if got := a.do("SEM.ACQUIRE", name, "2", "60000", "ID", "mine"); !strings.HasPrefix(got, "-ERR redoubt: this ID is over") {
			t.Errorf("an ID that is over: %q", got)
		}

		// A client that has gone gets no permit. It goes when the server has it in
		// the queue: an attempt that is still on its way may find a permit free, and
		// gives it back.
		eventually(t, "nobody waits", waiting(0))
		gone := dial(t, addr)
		_, _ = held(t, a.do("SEM.ACQUIRE", name, "2", "60000", "ID", "last"))
		gone.send("SEM.ACQUIRE", name, "2", "60000", "BLOCK", "0")
		eventually(t, "it waits", waiting(1))
		_ = gone.conn.Close()
		eventually(t, "it is forgotten", func() bool { return srv.Stats().Clients == 2 })
		a.want(":1\r\n", "SEM.RELEASE "+name+" last")
		id, _ := held(t, a.do("SEM.ACQUIRE", name, "2", "60000"))
		a.want(":1\r\n", "SEM.RELEASE "+name+" "+id)
	})
}
