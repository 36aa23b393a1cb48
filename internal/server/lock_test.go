package server_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// held checks a reply of LOCK.ACQUIRE that gives the lock for 60 s, and returns its id
// and fence.
func held(t *testing.T, raw string) (id string, fence int64) {
	t.Helper()
	v, _, err := resp.Parse([]byte(raw))
	a, ok := v.([]any)
	if err != nil || !ok || len(a) != 3 {
		t.Fatalf("LOCK.ACQUIRE: %q, want three elements", raw)
	}
	if ttl := a[2].(int64); ttl > 60_000 || ttl < 60_000-patience.Milliseconds() {
		t.Errorf("ttl_ms is %d, want about 60000", ttl)
	}
	return a[0].(string), a[1].(int64)
}

func TestLock(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		name := b.Prefix + "orders:42"
		a, o := dial(t, addr), dial(t, addr)
		_ = o.do("HELLO", "3")

		id, fence := held(t, a.do("lock.acquire", name, "60000", "label", "web-1"))
		if len(id) != 32 {
			t.Errorf("id %q, want 32 digits", id)
		}
		o.want("_\r\n", "LOCK.ACQUIRE "+name+" 60000")
		o.want(":0\r\n", "LOCK.RELEASE "+name+" wrong")
		o.want(":0\r\n", "LOCK.EXTEND "+name+" wrong 1000")
		a.want(":1\r\n", "LOCK.EXTEND "+name+" "+id+" 120000")
		a.want(":1\r\n", "LOCK.EXTEND "+name+" "+id+" 30000") // which does not shorten it

		info, ok := a.value("LOCK.INFO", name).([]any)
		if !ok || len(info) != 8 || info[0] != "mode" || info[1] != "exclusive" || info[4] != "fence" || info[5] != fence || info[7] != int64(0) {
			t.Fatalf("LOCK.INFO in RESP2: %#v", info)
		}
		m, ok := o.value("LOCK.INFO", name).(resp.Map)
		if !ok || len(m) != 8 || m[2] != "holders" {
			t.Fatalf("LOCK.INFO in RESP3: %#v", m)
		}
		holder, ok := m[3].([]any)[0].(resp.Map)
		if !ok || len(holder) != 8 || holder[1] != "web-1" || holder[3] != fence || holder[5].(int64) <= 60_000 || holder[5].(int64) > 120_000 {
			t.Errorf("holder: %#v", holder)
		}

		a.want(":1\r\n", "LOCK.RELEASE "+name+" "+id)
		m, _ = o.value("LOCK.INFO", name).(resp.Map)
		if len(m) != 8 || m[1] != "free" || len(m[3].([]any)) != 0 || m[5] != fence {
			t.Errorf("LOCK.INFO of a free lock: %#v", m)
		}

		// One acquisition, asked for twice.
		_, first := held(t, o.do("LOCK.ACQUIRE", name, "60000", "ID", "mine"))
		_, second := held(t, o.do("LOCK.ACQUIRE", name, "60000", "OWNER", "mine", "BLOCK", "0"))
		if first != second || first <= fence {
			t.Errorf("fences %d and %d after %d, want the same, and larger", first, second, fence)
		}
		o.want(":1\r\n", "LOCK.RELEASE "+name+" mine")
		if got := o.do("LOCK.ACQUIRE", name, "60000", "ID", "mine"); !strings.HasPrefix(got, "-ERR redoubt: this ID is over") {
			t.Errorf("an ID that is over: %q", got)
		}

		// Names are binary-safe.
		id, _ = held(t, a.do("LOCK.ACQUIRE", b.Prefix+"\x00\xff\r\n", "60000"))
		if got := a.do("LOCK.RELEASE", b.Prefix+"\x00\xff\r\n", id); got != ":1\r\n" {
			t.Errorf("release of a binary name: %q", got)
		}
	})
}

// Readers share a lock with each other and with no writer, Mutex or not.
func TestLockShared(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		srv, addr := start(t, b.URL)
		name := b.Prefix + "rw"
		a, o, writer := dial(t, addr), dial(t, addr), dial(t, addr)
		_ = o.do("HELLO", "3")

		id, fence := held(t, a.do("LOCK.ACQUIRE", name, "60000", "SHARED", "LABEL", "reader"))
		_, second := held(t, o.do("LOCK.ACQUIRE", name, "60000", "ID", "mine", "shared"))
		if second != fence {
			t.Errorf("readers have fences %d and %d", fence, second)
		}
		a.want("*-1\r\n", "LOCK.ACQUIRE "+name+" 60000")
		a.want(":1\r\n", "LOCK.EXTEND "+name+" mine 70000")
		m, ok := o.value("LOCK.INFO", name).(resp.Map)
		if !ok || len(m) != 8 || m[1] != "shared" || len(m[3].([]any)) != 2 || m[3].([]any)[0].(resp.Map)[1] != "reader" {
			t.Errorf("LOCK.INFO: %#v", m)
		}

		// A writer waits, and keeps new readers out.
		writer.send("LOCK.ACQUIRE", name, "60000", "BLOCK", "0", "ID", "writer")
		eventually(t, "it waits", func() bool { return srv.Stats().Commands[server.Waited] == 1 })
		eventually(t, "no reader gets in", func() bool {
			got := a.do("LOCK.ACQUIRE", name, "60000", "SHARED")
			if got == "*-1\r\n" {
				return true
			}
			early, _ := held(t, got) // before the writer claimed the lock
			a.want(":1\r\n", "LOCK.RELEASE "+name+" "+early)
			return false
		})
		a.want(":1\r\n", "LOCK.RELEASE "+name+" "+id)
		a.want(":1\r\n", "LOCK.RELEASE "+name+" mine")
		if got, next := held(t, writer.read()); got != "writer" || next <= fence {
			t.Errorf("id %q, fence %d after %d", got, next, fence)
		}
		a.send("LOCK.ACQUIRE", name, "60000", "SHARED", "BLOCK", "0", "ID", "again")
		eventually(t, "it waits", func() bool { return srv.Stats().Commands[server.Waited] == 2 })
		writer.want(":1\r\n", "LOCK.RELEASE "+name+" writer")
		held(t, a.read())
		a.want(":1\r\n", "LOCK.RELEASE "+name+" again")
	})
}

// With FAIR clients are served in the order in which they asked, also one that
// asked elsewhere; one that went away is not in the way.
func TestLockFair(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		_, elsewhere := start(t, b.URL)
		name := b.Prefix + "fair"
		holder := dial(t, addr)
		id, fence := held(t, holder.do("LOCK.ACQUIRE", name, "60000", "FAIR"))
		waiting := func(n int64) {
			t.Helper()
			eventually(t, "it waits", func() bool {
				m, _ := holder.value("LOCK.INFO", name).([]any)
				return len(m) == 8 && m[7] == n
			})
		}
		first, gone, second, hasty := dial(t, addr), dial(t, addr), dial(t, elsewhere), dial(t, addr)
		for i, c := range []*wire{first, gone, second} {
			c.send("LOCK.ACQUIRE", name, "60000", "FAIR", "BLOCK", "0", "ID", fmt.Sprint("w", i))
			waiting(int64(i + 1))
		}
		hasty.want("*-1\r\n", "LOCK.ACQUIRE "+name+" 60000 BLOCK 20 FAIR")
		waiting(3)
		_ = gone.conn.Close()
		waiting(2)
		holder.want(":1\r\n", "LOCK.RELEASE "+name+" "+id)
		for i, c := range []*wire{first, second} {
			hasty.want("*-1\r\n", "LOCK.ACQUIRE "+name+" 60000")
			got, next := held(t, c.read())
			if want := fmt.Sprint("w", 2*i); got != want || next <= fence {
				t.Errorf("%q has the lock with fence %d, want %q and more than %d", got, next, want, fence)
			}
			fence = next
			c.want(":1\r\n", "LOCK.RELEASE "+name+" "+got)
		}
		id, _ = held(t, hasty.do("LOCK.ACQUIRE", name, "60000"))
		hasty.want(":1\r\n", "LOCK.RELEASE "+name+" "+id)
	})
}

func TestLockWait(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		srv, addr := start(t, b.URL)
		name := b.Prefix + "l"
		holder, waiter, second := dial(t, addr), dial(t, addr), dial(t, addr)
		waiting := func(n uint64) {
			t.Helper()
			eventually(t, "it waits", func() bool { return srv.Stats().Commands[server.Waited] == n })
		}

		// Free: at once.
		id, fence := held(t, holder.do("LOCK.ACQUIRE", name, "60000", "BLOCK", "0"))
		// Out of time.
		waiter.want("*-1\r\n", "LOCK.ACQUIRE "+name+" 60000 BLOCK 20")
		// Released while one waits, with commands before and behind.
		waiter.send("SET", name+":order", "1")
		waiter.send("LOCK.ACQUIRE", name, "60000", "BLOCK", "0", "ID", "w")
		waiter.send("INCR", name+":order")
		waiter.expect("+OK\r\n")
		waiting(3)
		holder.want(bulk("1"), "GET "+name+":order") // what is behind has not run
		holder.want(":1\r\n", "LOCK.RELEASE "+name+" "+id)
		got, next := held(t, waiter.read())
		if got != "w" || next <= fence {
			t.Errorf("id %q, fence %d after %d", got, next, fence)
		}
		waiter.expect(":2\r\n")

		// The client that waits goes away: it never gets the lock.
		second.send("LOCK.ACQUIRE", name, "60000", "BLOCK", "0", "ID", "gone")
		waiting(4)
		_ = second.conn.Close()
		eventually(t, "it is forgotten", func() bool { return srv.Stats().Clients == 2 })
		waiter.want(":1\r\n", "LOCK.RELEASE "+name+" w")
		id, _ = held(t, holder.do("LOCK.ACQUIRE", name, "60000"))
		holder.want(":1\r\n", "LOCK.RELEASE "+name+" "+id)
	})
}

// Many clients of one server take turns.
func TestLockContention(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		name := b.Prefix + "l"
		const clients, rounds = 8, 10
		var inside atomic.Int32
		var wg sync.WaitGroup
		for range clients {
			w := dial(t, addr)
			wg.Go(func() {
				for range rounds {
					w.sendQuietly("LOCK.ACQUIRE", name, "60000", "BLOCK", "0")
					raw, err := w.next()
					v, _, _ := resp.Parse([]byte(raw))
					a, ok := v.([]any)
					if err != nil || !ok {
						t.Errorf("LOCK.ACQUIRE: %q %v", raw, err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d holders at once", n)
					}
					inside.Add(-1)
					w.sendQuietly("LOCK.RELEASE", name, a[0].(string))
					if raw, err := w.next(); raw != ":1\r\n" {
						t.Errorf("LOCK.RELEASE: %q %v", raw, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestWaitNeedsTheHomeDatabase(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	w := dial(t, addr)
	w.want("+OK\r\n", "SELECT 1")
	if got := w.do("LOCK.ACQUIRE", "l", "1000", "BLOCK", "0"); !strings.HasPrefix(got, "-ERR redoubt: this works in the back end's own database only") {
		t.Errorf("got %q", got)
	}
	id, _ := held(t, w.do("LOCK.ACQUIRE", "l", "60000"))
	w.want("+OK\r\n", "SELECT 0")
	w.want(":0\r\n", "LOCK.RELEASE l "+id)
	held(t, w.do("LOCK.ACQUIRE", "l", "60000", "BLOCK", "0"))
}

// A lock is released whose client has gone before it got the reply, and with it
// the only copy of the id.
func TestLockOfAClientThatHasGone(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	gone, other := dial(t, addr), dial(t, addr)
	gone.want("+PONG\r\n", "PING")
	other.want("+PONG\r\n", "PING")
	backend.Pause()
	gone.send("LOCK.ACQUIRE", "l", "600000")
	eventually(t, "it is sent", func() bool { return srv.Stats().Commands[server.Rewritten] == 1 })
	_ = gone.conn.(*net.TCPConn).SetLinger(0) // a reset: not only its sending side
	_ = gone.conn.Close()
	eventually(t, "the client is gone", func() bool { return srv.Stats().Clients == 1 })
	backend.Resume()
	eventually(t, "the lock is free", func() bool {
		return strings.HasPrefix(other.do("LOCK.ACQUIRE", "l", "600000", "ID", "other"), "*3\r\n")
	})
}

// A client that made its ID loses the connection while its acquire is under way,
// and asks again on another: what it gets there is not taken back for the sake of
// the first.
func TestLockAskedForAgainStaysHeld(t *testing.T) {
	backend := redistest.Start(t)
	network := faultnet.New(t, backend.Addr())
	srv, addr := start(t, "redis://"+network.Addr())
	again := dial(t, addr)
	// A connect to a server that hangs takes 5 s.
	again.want(":0\r\n", "LOCK.EXTEND l0 mine 60000")
	held(t, again.do("LOCK.ACQUIRE", "first", "60000", "BLOCK", "0"))
	already := srv.Stats().Commands[server.Waited]
	for i, command := range []string{
		"LOCK.ACQUIRE l0 60000 BLOCK 0 ID mine",
		"LOCK.ACQUIRE l1 60000 BLOCK 0 ID mine SHARED",
		"LOCK.ACQUIRE l2 60000 BLOCK 0 ID mine FAIR",
		"SEM.ACQUIRE s3 1 60000 BLOCK 0 ID mine",
	} {
		words := strings.Fields(command)
		first := dial(t, addr)
		first.want("+PONG\r\n", "PING")
		again.want("+PONG\r\n", "PING")
		backend.Pause()
		sent := network.Stats().ToServer
		first.send(words...)
		eventually(t, "it is under way", func() bool { return srv.Stats().Commands[server.Waited] == already+uint64(2*i+1) })
		eventually(t, "the server that stands still has it", func() bool {
			return network.Stats().ToServer > sent+int64(len(command)) // a PING is shorter
		})
		_ = first.conn.Close()
		again.send(words...)
		eventually(t, "the client is gone", func() bool { return srv.Stats().Clients == 1 })
		backend.Resume()
		if id, _ := held(t, again.read()); id != "mine" {
			t.Errorf("%s: the id is %q", command, id)
		}
		extend := strings.TrimSuffix(words[0], "ACQUIRE") + "EXTEND " + words[1] + " mine 60000"
		await.Always(t, 400*time.Millisecond, "it is held", func() bool {
			again.want(":1\r\n", extend)
			return true
		})
	}
}
