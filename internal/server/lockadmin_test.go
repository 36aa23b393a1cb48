package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// ls lists by calls until the last one, and returns what each name comes with.
func ls(t *testing.T, w *wire, args ...string) map[string]resp.Map {
	t.Helper()
	found := map[string]resp.Map{}
	for cursor := "0"; ; {
		reply, ok := w.value(append(slices.Clone(args), "CURSOR", cursor)...).([]any)
		if !ok || len(reply) != 2 {
			t.Fatalf("%q: %#v", args, reply)
		}
		for _, l := range reply[1].([]any) {
			m := l.(resp.Map)
			if len(m) != 10 || m[0] != "name" {
				t.Fatalf("%q: %#v", args, m)
			}
			found[m[1].(string)] = m[2:]
		}
		if cursor = reply[0].(string); cursor == "0" {
			return found
		}
	}
}

func TestLockForceAndList(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		srv, addr := start(t, b.URL)
		name := b.Prefix + "orders:42"
		a, o, waiter := dial(t, addr), dial(t, addr), dial(t, addr)
		_ = o.do("HELLO", "3")

		before := time.Now()
		id, fence := held(t, a.do("LOCK.ACQUIRE", name, "60000", "LABEL", "web-1"))
		held(t, a.do("LOCK.ACQUIRE", b.Prefix+"read", "60000", "SHARED"))
		free, _ := held(t, a.do("LOCK.ACQUIRE", b.Prefix+"free", "60000"))
		a.want(":1\r\n", "LOCK.RELEASE "+b.Prefix+"free "+free)

		found := ls(t, o, "LOCK.LS", "MATCH", b.Prefix+"*")
		m := found[name]
		if len(found) != 2 || m[1] != "exclusive" || found[b.Prefix+"read"][1] != "shared" {
			t.Fatalf("LOCK.LS: %#v", found)
		}
		holder := m[3].([]any)[0].(resp.Map)
		since := time.UnixMilli(holder[7].(int64))
		if holder[1] != "web-1" || holder[6] != "since_ms" || since.Before(before.Truncate(time.Millisecond)) || since.After(time.Now()) {
			t.Errorf("the holder, since %v: %#v", since, holder)
		}

		waiter.send("LOCK.ACQUIRE", name, "60000", "BLOCK", "0", "ID", "w")
		eventually(t, "it waits", func() bool {
			m, ok := o.value("LOCK.INFO", name).(resp.Map)
			return ok && m[7] == int64(1)
		})
		o.want(":0\r\n", fmt.Sprint("LOCK.FORCE ", name, " ", fence-1))
		o.want(":1\r\n", fmt.Sprint("lock.force ", name, " ", fence))
		got, next := held(t, waiter.read())
		if got != "w" || next <= fence {
			t.Errorf("id %q, fence %d after %d", got, next, fence)
		}
		a.want(":0\r\n", "LOCK.EXTEND "+name+" "+id+" 1000")
		a.want(":0\r\n", "LOCK.RELEASE "+name+" "+id)
		o.want(":1\r\n", fmt.Sprint("LOCK.FORCE ", name, " ", fence)) // repeated: another has it
		waiter.want(":1\r\n", "LOCK.EXTEND "+name+" w 1000")
		waiter.want(":1\r\n", "LOCK.RELEASE "+name+" w")
		if n := srv.Stats().Commands[server.Waited]; n < 2 {
			t.Errorf("%d commands waited", n)
		}
	})
}

func TestSemaphoreForceAndList(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		name := b.Prefix + "geocoder"
		a, o := dial(t, addr), dial(t, addr)
		_ = o.do("HELLO", "3")
		first, fence := held(t, a.do("SEM.ACQUIRE", name, "2", "60000"))
		second, _ := held(t, a.do("SEM.ACQUIRE", name, "2", "60000"))
		if found := ls(t, o, "SEM.LS", "MATCH", name); len(found) != 1 || found[name][1] != int64(2) {
			t.Errorf("SEM.LS: %#v", found)
		}
		o.want(":1\r\n", fmt.Sprint("SEM.FORCE ", name, " ", fence))
		o.want(":0\r\n", fmt.Sprint("SEM.FORCE ", name, " ", fence))
		a.want(":0\r\n", "SEM.RELEASE "+name+" "+first)
		a.want(":1\r\n", "SEM.RELEASE "+name+" "+second)
		if found := ls(t, o, "SEM.LS", "MATCH", name); len(found) != 0 {
			t.Errorf("SEM.LS when all are back: %#v", found)
		}
	})
}

func TestListFaults(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		w.want("-ERR redoubt: invalid pattern: \"[\" has a [ without a ]\r\n", "LOCK.LS MATCH [")
		w.want("-ERR redoubt: invalid cursor: \"x\"; want 0, or what the page before gave\r\n", "SEM.LS CURSOR x")
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", "LOCK.LS")
		if got := w.do("EXEC"); !strings.Contains(got, "ERR redoubt: LOCK.LS takes several steps and has no place in a transaction") {
			t.Errorf("in a transaction: %q", got)
		}
		// It keeps its place among other commands.
		w.send("ECHO", "a")
		w.send("LOCK.LS", "MATCH", b.Prefix+"none")
		w.send("ECHO", "b")
		w.expect(bulk("a"))
		if got := w.read(); !strings.HasPrefix(got, "*2\r\n") {
			t.Errorf("LOCK.LS: %q", got)
		}
		w.expect(bulk("b"))
	})
}
