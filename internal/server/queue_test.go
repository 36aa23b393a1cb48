package server_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// A message is an element of the reply to QUEUE.TAKE.
type message struct {
	receipt, id, payload string
	attempt              int64
}

// messages reads a reply of QUEUE.TAKE.
func messages(t *testing.T, raw string) []message {
	t.Helper()
	v, _, err := resp.Parse([]byte(raw))
	list, ok := v.([]any)
	if err != nil || !ok {
		t.Fatalf("QUEUE.TAKE: %q", raw)
	}
	got := make([]message, len(list))
	for i, e := range list {
		m, ok := e.([]any)
		if !ok || len(m) != 4 {
			t.Fatalf("QUEUE.TAKE: %q", raw)
		}
		got[i] = message{m[0].(string), m[1].(string), m[3].(string), m[2].(int64)}
	}
	return got
}

// taken is the one message of a reply to QUEUE.TAKE.
func taken(t *testing.T, raw string) message {
	t.Helper()
	list := messages(t, raw)
	if len(list) != 1 {
		t.Fatalf("QUEUE.TAKE: %q, want one message", raw)
	}
	return list[0]
}

// queueStats is QUEUE.STATS.
func queueStats(t *testing.T, w *wire, name string) map[string]int64 {
	t.Helper()
	v := w.value("QUEUE.STATS", name)
	flat, ok := v.([]any)
	if m, isMap := v.(resp.Map); isMap {
		flat, ok = m, true
	}
	if !ok || len(flat) != 32 {
		t.Fatalf("QUEUE.STATS: %#v", v)
	}
	stats := map[string]int64{}
	for ; len(flat) > 0; flat = flat[2:] {
		stats[flat[0].(string)] = flat[1].(int64)
	}
	return stats
}

// wantCounts checks messages that are ready, due, running, waiting and dead.
func wantCounts(t *testing.T, w *wire, name string, want ...int64) {
	t.Helper()
	stats := queueStats(t, w, name)
	for i, state := range []string{"ready", "due", "running", "waiting", "dead"} {
		if stats[state] != want[i] {
			t.Errorf("QUEUE.STATS: %v, want %v", stats, want)
		}
	}
}

func TestQueue(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		name := b.Prefix + "mail"
		a, o := dial(t, addr), dial(t, addr)
		_ = o.do("HELLO", "3")

		a.want("*0\r\n", "QUEUE.TAKE "+name+" 1 60000")
		for range 2 {
			a.want(bulk("m1"), "queue.put "+name+" hello id m1")
		}
		id := o.do("QUEUE.PUT", name, "\x00\r\n", "LANE", "1", "ATTEMPTS", "1")
		a.want(bulk("m3"), "QUEUE.PUT "+name+" later DELAY 600000 ID m3 UNIQUE k 600000")
		a.want(bulk("m3"), "QUEUE.PUT "+name+" again ID m4 UNIQUE k 600000") // dropped
		a.want(bulk("m5"), "QUEUE.PUT "+name+" past AT 1 ID m5 GROUP g")
		a.want(bulk("m6"), "QUEUE.PUT "+name+" second ID m6 GROUP g ATTEMPTS -1")
		wantCounts(t, o, name, 3, 1, 0, 1, 0)

		// The lane goes before the order.
		first := taken(t, a.do("QUEUE.TAKE", name, "1", "60000"))
		if bulk(first.id) != id || len(first.id) != 16 || first.payload != "\x00\r\n" || first.attempt != 1 {
			t.Errorf("first: %+v, want %q", first, id)
		}
		rest := messages(t, o.do("QUEUE.TAKE", name, "10", "60000", "ID", "take-1"))
		if len(rest) != 2 || rest[0].id != "m1" || rest[0].payload != "hello" || rest[1].id != "m5" {
			t.Fatalf("the others: %+v", rest)
		}
		if again := messages(t, a.do("QUEUE.TAKE", name, "10", "60000", "ID", "take-1")); !slices.Equal(again, rest) {
			t.Errorf("the take again: %+v, want %+v", again, rest)
		}
		wantCounts(t, a, name, 0, 1, 3, 1, 0)

		// Settled.
		a.want(":1\r\n", "QUEUE.EXTEND "+name+" "+rest[0].receipt+" 90000")
		a.want(":0\r\n", "QUEUE.EXTEND "+name+" "+strings.Repeat("x", 20)+" 90000")
		a.want(":2\r\n", "QUEUE.ACK "+name+" "+rest[0].receipt+" "+strings.Repeat("x", 20)+" "+rest[1].receipt)
		a.want(":0\r\n", "QUEUE.ACK "+name+" "+rest[0].receipt)
		a.want(":0\r\n", "QUEUE.NACK "+name+" "+rest[0].receipt)
		wantCounts(t, a, name, 1, 1, 1, 0, 0) // m6 has the turn of its group
		if got := a.do("QUEUE.NACK", name, first.receipt, "REASON", "no such address"); got != ":1\r\n" {
			t.Errorf("QUEUE.NACK: %q", got)
		}
		wantCounts(t, a, name, 1, 1, 0, 0, 1) // its only attempt

		// Tried again: at once and uncounted, later and counted, never.
		m := taken(t, a.do("QUEUE.TAKE", name, "1", "60000"))
		a.want(":1\r\n", "QUEUE.NACK "+name+" "+m.receipt+" SNOOZE")
		m = taken(t, a.do("QUEUE.TAKE", name, "1", "60000"))
		if m.id != "m6" || m.attempt != 1 {
			t.Errorf("after a snooze: %+v", m)
		}
		a.want(":1\r\n", "QUEUE.NACK "+name+" "+m.receipt+" DELAY 0 REASON x")
		m = taken(t, a.do("QUEUE.TAKE", name, "1", "60000"))
		if m.id != "m6" || m.attempt != 2 {
			t.Errorf("after a failure: %+v", m)
		}
		a.want(":1\r\n", "QUEUE.NACK "+name+" "+m.receipt+" SNOOZE DELAY 500000")
		wantCounts(t, a, name, 0, 2, 0, 0, 1)
		a.want(array(bulk("pending"), bulk("absent")), "QUEUE.CANCEL "+name+" m6 m7")

		// The dead.
		a.want(array(bulk("dead")), "QUEUE.CANCEL "+name+" "+first.id)
		a.want(":0\r\n", "QUEUE.DELETE "+name+" m3")
		a.want(":1\r\n", "QUEUE.REQUEUE "+name+" "+first.id+" m3")
		m = taken(t, a.do("QUEUE.TAKE", name, "1", "60000"))
		if m.id != first.id || m.attempt != 1 {
			t.Errorf("requeued: %+v", m)
		}
		a.want(":1\r\n", "QUEUE.NACK "+name+" "+m.receipt+" DEAD REASON gave-up")
		a.want(":1\r\n", "QUEUE.DELETE "+name+" "+m.id)
		a.want(array(bulk("pending")), "QUEUE.CANCEL "+name+" m3")
		wantCounts(t, a, name, 0, 0, 0, 0, 0)

		// Running ones can be cancelled, and whoever has one can't settle it.
		a.want(bulk("m8"), "QUEUE.PUT "+name+" x ID m8")
		m = taken(t, a.do("QUEUE.TAKE", name, "1", "60000"))
		a.want(array(bulk("running")), "QUEUE.CANCEL "+name+" m8")
		a.want(":0\r\n", "QUEUE.ACK "+name+" "+m.receipt)

		// Inside a transaction nothing waits.
		a.want("+OK\r\n", "MULTI")
		a.want("+QUEUED\r\n", "QUEUE.PUT "+name+" x ID tx")
		a.want("+QUEUED\r\n", "QUEUE.CANCEL "+name+" tx")
		a.want("+QUEUED\r\n", "QUEUE.TAKE "+name+" 1 60000 BLOCK 0")
		a.want(array(bulk("tx"), array(bulk("pending")), "*0\r\n"), "EXEC")
	})
}

// The result that a consumer gives with its acknowledgement is kept for as long as it says, also when it
// is empty; whoever has lost the message leaves none.
func TestQueueResult(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		name := b.Prefix + "results"
		w := dial(t, addr)
		_ = w.do("HELLO", "3")
		take := func(id string) string {
			t.Helper()
			w.want(bulk(id), "QUEUE.PUT "+name+" x ID "+id)
			return taken(t, w.do("QUEUE.TAKE", name, "1", "60000")).receipt
		}
		for id, value := range map[string]string{"bytes": "\x00\r\n", "empty": ""} {
			receipt := take(id)
			if got := w.do("QUEUE.ACK", name, receipt, "result", "600000", value); got != ":1\r\n" {
				t.Errorf("QUEUE.ACK: %q", got)
			}
			w.want(":0\r\n", "QUEUE.ACK "+name+" "+receipt+" RESULT 600000 second")
			if m := pairs(t, w.value("QUEUE.FIND", name, id)); m["state"] != "done" || m["payload"] != value {
				t.Errorf("QUEUE.FIND: %v, want the result %q", m, value)
			}
		}
		w.want(":1\r\n", "QUEUE.ACK "+name+" "+take("short")+" RESULT 1 gone")
		await.Soon(t, "the result ends", func() bool { return w.do("QUEUE.FIND", name, "short") == "_\r\n" })

		lost := take("lost")
		w.want(array(bulk("running")), "QUEUE.CANCEL "+name+" lost")
		w.want(":0\r\n", "QUEUE.ACK "+name+" "+lost+" RESULT 600000 late")
		w.want("_\r\n", "QUEUE.FIND "+name+" lost")

		receipt := take("tx")
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", "QUEUE.ACK "+name+" "+receipt+" RESULT 600000 both")
		w.want("+QUEUED\r\n", "QUEUE.CANCEL "+name+" tx")
		w.want(array(":1\r\n", array(bulk("absent"))), "EXEC")
		if m := pairs(t, w.value("QUEUE.FIND", name, "tx")); m["payload"] != "both" {
			t.Errorf("QUEUE.FIND: %v", m)
		}
		wantCounts(t, w, name, 0, 0, 0, 0, 0)
	})
}

// A note of progress is shown while its consumer has the message, and not to the next one.
func TestQueueProgress(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		name := b.Prefix + "progress"
		w := dial(t, addr)
		_ = w.do("HELLO", "3")
		shows := func(want string) {
			t.Helper()
			if m := pairs(t, w.value("QUEUE.FIND", name, "m")); m["progress"] != want {
				t.Errorf("QUEUE.FIND: %v, want progress %q", m, want)
			}
		}
		w.want(bulk("m"), "QUEUE.PUT "+name+" x ID m")
		m := taken(t, w.do("QUEUE.TAKE", name, "1", "60000"))
		shows("")
		w.want(":1\r\n", "QUEUE.PROGRESS "+name+" "+m.receipt+" 1/2")
		shows("1/2")
		w.want(":1\r\n", "queue.progress "+name+" "+m.receipt+" 2/2")
		shows("2/2")
		direct := dial(t, b.Addr)
		keys, _ := direct.value("KEYS", "*{"+name+"}:queue:progress:*").([]any)
		if len(keys) != 1 {
			t.Fatalf("the keys of the note: %v", keys)
		}
		if left, _ := direct.value("PTTL", keys[0].(string)).(int64); left > 3_600_000 || left < 3_000_000 {
			t.Errorf("the note is kept for %d ms, want an hour", left)
		}
		w.want(":0\r\n", "QUEUE.PROGRESS "+name+" "+strings.Repeat("x", 16)+"m 9/9")
		shows("2/2")

		w.want(":1\r\n", "QUEUE.NACK "+name+" "+m.receipt+" DELAY 0")
		shows("")
		again := taken(t, w.do("QUEUE.TAKE", name, "1", "60000"))
		shows("")
		w.want(":0\r\n", "QUEUE.PROGRESS "+name+" "+m.receipt+" late")
		shows("")
		w.want(":1\r\n", "QUEUE.PROGRESS "+name+" "+again.receipt+" 0/2")
		shows("0/2")
		w.want(":1\r\n", "QUEUE.ACK "+name+" "+again.receipt)
		w.want("_\r\n", "QUEUE.FIND "+name+" m")
	})
}

func TestQueueLists(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		name := b.Prefix + "lists"
		w := dial(t, addr)
		_ = w.do("HELLO", "3")
		for i := range 3 {
			w.want(bulk(fmt.Sprint("d", i)), fmt.Sprintf("QUEUE.PUT %s p%d ID d%[2]d ATTEMPTS 1 GROUP g LANE 2", name, i))
			m := taken(t, w.do("QUEUE.TAKE", name, "1", "60000"))
			w.want(":1\r\n", "QUEUE.NACK "+name+" "+m.receipt+" REASON why")
		}
		before := time.Now()
		w.want(bulk("due"), "QUEUE.PUT "+name+" x ID due DELAY 600000")
		w.want(bulk("r"), "QUEUE.PUT "+name+" x ID r")
		m := taken(t, w.do("QUEUE.TAKE", name, "1", "60000"))
		w.want(bulk("w"), "QUEUE.PUT "+name+" x ID w")

		list := func(all int64, words ...string) (ids []string, last map[string]any) {
			t.Helper()
			reply, ok := w.value(words...).([]any)
			if !ok || len(reply) != 2 || reply[0] != all {
				t.Fatalf("%q: %#v, want %d", words, reply, all)
			}
			for _, e := range reply[1].([]any) {
				last = pairs(t, e)
				ids = append(ids, last["id"].(string))
			}
			return ids, last
		}
		ids, last := list(3, "QUEUE.DEAD", name, "2", "FROM", "1")
		if !slices.Equal(ids, []string{"d1", "d2"}) || last["payload"] != "p2" || last["reason"] != "why" || last["state"] != "dead" ||
			last["failures"] != int64(1) || last["attempts"] != int64(1) || last["group"] != "g" || last["lane"] != int64(2) {
			t.Errorf("QUEUE.DEAD: %v, %v", ids, last)
		}
		for state, want := range map[string]string{"READY": "w", "DUE": "due", "running": "r"} {
			if ids, last := list(1, "QUEUE.MESSAGES", name, state, "10"); len(ids) != 1 || ids[0] != want || last["state"] != strings.ToLower(state) {
				t.Errorf("QUEUE.MESSAGES %s: %v", state, last)
			}
		}
		found := pairs(t, w.value("QUEUE.FIND", name, "due"))
		if when := time.UnixMilli(found["when_ms"].(int64)).Sub(before); found["state"] != "due" || when < 9*time.Minute || when > 11*time.Minute {
			t.Errorf("QUEUE.FIND: %v", found)
		}
		w.want("_\r\n", "QUEUE.FIND "+name+" none")

		// A pause, and limits, hold for everybody.
		w.want("+OK\r\n", "QUEUE.PAUSE "+name)
		w.want("*0\r\n", "QUEUE.TAKE "+name+" 1 1000")
		w.want("+OK\r\n", "QUEUE.LIMIT "+name+" CONCURRENCY 1 RATE 10 1000 BURST 5")
		if s := queueStats(t, w, name); s["paused"] != 1 || s["concurrency"] != 1 || s["interval_us"] != 100_000 || s["burst"] != 5 || s["urgent"] != 0 || s["normal"] != 1 || s["next_ms"] <= 0 {
			t.Errorf("QUEUE.STATS: %v", s)
		}
		w.want("+OK\r\n", "QUEUE.RESUME "+name)
		w.want("*0\r\n", "QUEUE.TAKE "+name+" 1 1000") // one is at work
		w.want(":1\r\n", "QUEUE.ACK "+name+" "+m.receipt)
		taken(t, w.do("QUEUE.TAKE", name, "1", "60000"))
		w.want("+OK\r\n", "QUEUE.LIMIT "+name+" NONE")
		if s := queueStats(t, w, name); s["concurrency"] != 0 || s["interval_us"] != 0 {
			t.Errorf("QUEUE.STATS: %v", s)
		}

		seen := map[string]any{}
		for cursor := "0"; ; {
			reply := w.value("QUEUE.LS", "CURSOR", cursor, "MATCH", b.Prefix+"list*").([]any)
			for _, e := range reply[1].([]any) {
				q := pairs(t, e)
				seen[q["name"].(string)] = q["dead"]
			}
			if cursor = reply[0].(string); cursor == "0" {
				break
			}
		}
		if len(seen) != 1 || seen[name] != int64(3) {
			t.Errorf("QUEUE.LS: %v", seen)
		}
	})
}

// pairs is a map of a reply in RESP3.
func pairs(t *testing.T, v any) map[string]any {
	t.Helper()
	flat, ok := v.(resp.Map)
	if !ok {
		t.Fatalf("%#v, want a map", v)
	}
	m := map[string]any{}
	for ; len(flat) > 1; flat = flat[2:] {
		m[flat[0].(string)] = flat[1]
	}
	return m
}

func TestQueueBlock(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		srv, addr := start(t, b.URL)
		name := b.Prefix + "block"
		a, o, c := dial(t, addr), dial(t, addr), dial(t, addr)
		waiting := uint64(0)
		block := func(w *wire, words ...string) {
			t.Helper()
			waiting++
			w.send(append([]string{"QUEUE.TAKE", name, "1", "60000", "BLOCK", "0"}, words...)...)
			eventually(t, "it waits", func() bool { return srv.Stats().Commands[server.Waited] == waiting })
		}

		// Nothing in time.
		waiting++
		a.want("*0\r\n", "QUEUE.TAKE "+name+" 1 60000 BLOCK 20")
		// One message wakes one.
		block(a)
		block(o)
		c.want(bulk("m1"), "QUEUE.PUT "+name+" x ID m1")
		c.want(bulk("m2"), "QUEUE.PUT "+name+" x ID m2")
		first, second := taken(t, a.read()), taken(t, o.read())
		if ids := []string{first.id, second.id}; !slices.Contains(ids, "m1") || !slices.Contains(ids, "m2") {
			t.Errorf("got %v", ids)
		}
		// Messages that are handed back, that become due, and that are put with a shorter delay
		// than the known ones.
		block(a)
		c.want(":1\r\n", "QUEUE.NACK "+name+" "+first.receipt+" SNOOZE")
		first = taken(t, a.read())
		block(a)
		c.want(bulk("hour"), "QUEUE.PUT "+name+" x ID hour DELAY 3600000")
		before := time.Now()
		c.want(bulk("soon"), "QUEUE.PUT "+name+" x ID soon DELAY 30")
		if m := taken(t, a.read()); m.id != "soon" || time.Since(before) < 30*time.Millisecond {
			t.Errorf("%+v after %v", m, time.Since(before))
		}
		// A pause that ends.
		c.want("+OK\r\n", "QUEUE.PAUSE "+name)
		c.want(bulk("paused"), "QUEUE.PUT "+name+" x ID paused")
		block(a)
		c.want("+OK\r\n", "QUEUE.RESUME "+name)
		if m := taken(t, a.read()); m.id != "paused" {
			t.Errorf("%+v", m)
		}
		// A consumer that died.
		short := taken(t, func() string {
			c.want(bulk("lost"), "QUEUE.PUT "+name+" x ID lost")
			return c.do("QUEUE.TAKE", name, "1", "50")
		}())
		block(a)
		if m := taken(t, a.read()); m.id != short.id || m.attempt != 2 {
			t.Errorf("%+v", m)
		}
		c.want(":0\r\n", "QUEUE.ACK "+name+" "+short.receipt)
		// A consumer dies while another one waits already, and nothing wakes that one.
		waiting++
		a.send("QUEUE.TAKE", name, "1", "200", "BLOCK", "0")
		eventually(t, "it waits", func() bool { return srv.Stats().Commands[server.Waited] == waiting })
		c.want("+OK\r\n", "MULTI")
		c.want("+QUEUED\r\n", "QUEUE.PUT "+name+" x ID dies")
		c.want("+QUEUED\r\n", "QUEUE.TAKE "+name+" 1 1")
		_ = c.do("EXEC")
		pulse := await.NewPulse(t)
		told := pulse.Now()
		if m := taken(t, a.read()); m.id != "dies" || m.attempt != 2 || pulse.Now()-told > 5*time.Second {
			t.Errorf("%+v after %v", m, pulse.Now()-told)
		}
	})
}

// Each message goes to one of many waiting clients, whatever their door.
func TestQueueManyWait(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		srv, addr := start(t, b.URL)
		other, elsewhere := start(t, b.URL)
		name := b.Prefix + "many"
		const clients = 20
		got := make(chan string, clients)
		for i := range clients {
			w := dial(t, []string{addr, elsewhere}[i%2])
			go func() {
				w.sendQuietly("QUEUE.TAKE", name, "1", "60000", "BLOCK", "0")
				raw, err := w.next()
				if err != nil {
					raw = err.Error()
				}
				got <- raw
			}()
		}
		eventually(t, "all wait", func() bool {
			return srv.Stats().Commands[server.Waited]+other.Stats().Commands[server.Waited] == clients
		})
		w := dial(t, addr)
		for i := range clients {
			w.want(bulk(strconv.Itoa(i)), fmt.Sprintf("QUEUE.PUT %s x ID %d", name, i))
		}
		seen := map[string]bool{}
		for range clients {
			select {
			case raw := <-got:
				seen[taken(t, raw).id] = true
			case <-time.After(patience):
				t.Fatalf("only %d got a message", len(seen))
			}
		}
		if len(seen) != clients {
			t.Errorf("%d messages for %d clients", len(seen), clients)
		}
	})
}

// A client that waits goes away: what comes then is for another.
func TestQueueClientGoneWhileItWaits(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		srv, addr := start(t, b.URL)
		name := b.Prefix + "gone"
		gone, other := dial(t, addr), dial(t, addr)
		gone.send("QUEUE.TAKE", name, "1", "600000", "BLOCK", "0")
		eventually(t, "it waits", func() bool { return srv.Stats().Commands[server.Waited] == 1 })
		_ = gone.conn.Close()
		other.want(bulk("m"), "QUEUE.PUT "+name+" x ID m")
		if m := taken(t, other.do("QUEUE.TAKE", name, "1", "600000", "BLOCK", "0")); m.id != "m" || m.attempt != 1 {
			t.Errorf("%+v", m)
		}
	})
}

// Messages are handed back whose client has gone before it got the reply, and with
// it the only copy of the receipts; unless it named the take, and can ask again.
func TestQueueOfAClientThatHasGone(t *testing.T) {
	backend := redistest.Start(t)
	for name, words := range map[string]string{"now": "", "blocks": " BLOCK 0", "named": " ID mine", "blocks and named": " BLOCK 0 ID mine"} {
		t.Run(name, func(t *testing.T) {
			srv, addr := start(t, backend.URL())
			gone, other := dial(t, addr), dial(t, addr)
			gone.want("+PONG\r\n", "PING")
			name = strings.ReplaceAll(name, " ", "-")
			other.want(bulk("m"), "QUEUE.PUT "+name+" x ID m")
			kind, n := server.Rewritten, uint64(2)
			if strings.Contains(words, "BLOCK") {
				kind, n = server.Waited, 1
			}
			backend.Pause()
			gone.send(strings.Fields("QUEUE.TAKE " + name + " 1 600000" + words)...)
			eventually(t, "it is sent", func() bool { return srv.Stats().Commands[kind] == n })
			_ = gone.conn.(*net.TCPConn).SetLinger(0) // a reset: not only its sending side
			_ = gone.conn.Close()
			// A wait ends with its call, which the server that stands still keeps.
			if kind == server.Rewritten {
				eventually(t, "the client is gone", func() bool { return srv.Stats().Clients == 1 })
			}
			backend.Resume()
			eventually(t, "the client is gone", func() bool { return srv.Stats().Clients == 1 })
			if strings.Contains(words, "ID") {
				m := taken(t, other.do(strings.Fields("QUEUE.TAKE "+name+" 1 600000"+words)...))
				if m.id != "m" || m.attempt != 1 {
					t.Errorf("%+v", m)
				}
				await.Always(t, 200*time.Millisecond, "it is held", func() bool { return queueStats(t, other, name)["running"] == 1 })
				return
			}
			eventually(t, "the message is back", func() bool {
				raw := other.do("QUEUE.TAKE", name, "1", "600000")
				return raw != "*0\r\n" && taken(t, raw).attempt == 1
			})
		})
	}
}

// The trap of BLPOP: a connection that was cut while a pop blocked on it takes the
// next message with it. Here what blocks carries no message, on either side.
func TestQueueBlockedThroughACutConnection(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	const rounds = 5
	putter := dial(t, addr)
	for i := range rounds {
		cut, w := dial(t, addr), dial(t, addr)
		for j, c := range []*wire{cut, w} {
			c.send("QUEUE.TAKE", "q", "1", "600000", "BLOCK", "0")
			eventually(t, "it waits", func() bool { return srv.Stats().Commands[server.Waited] == uint64(2*i+j+1) })
		}
		blocked := func() string { return backend.CLI("CLIENT", "LIST") }
		eventually(t, "the server blocks", func() bool { return strings.Contains(blocked(), "cmd=bzpopmin") })
		// Every connection that blocks is cut, and that of a client; then the message.
		for line := range strings.Lines(blocked()) {
			if id, ok := strings.CutPrefix(strings.Fields(line)[0], "id="); ok && strings.Contains(line, "cmd=bzpopmin") {
				backend.CLI("CLIENT", "KILL", "ID", id)
			}
		}
		_ = cut.conn.(*net.TCPConn).SetLinger(0)
		_ = cut.conn.Close()
		id := strconv.Itoa(i)
		putter.want(bulk(id), "QUEUE.PUT q x ID "+id)
		m := taken(t, w.read())
		if m.id != id {
			t.Errorf("%+v, want %s", m, id)
		}
		putter.want(":1\r\n", "QUEUE.ACK q "+m.receipt)
		_ = w.conn.Close()
		eventually(t, "they are gone", func() bool { return srv.Stats().Clients == 1 })
	}
	wantCounts(t, putter, "q", 0, 0, 0, 0, 0)
}

// Large messages are cancelled in steps. Inside a transaction that is refused, and none is.
func TestQueueInTransaction(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w, name := dial(t, addr), b.Prefix+"large"
		payload, reply := strings.Repeat("x", 300_000), "*15\r\n"
		cancel := []string{"QUEUE.CANCEL", name}
		for i := range 15 {
			id := strconv.Itoa(i)
			if got := w.value("QUEUE.PUT", name, payload, "ID", id, "GROUP", id); got != id {
				t.Fatalf("%v was put", got)
			}
			cancel, reply = append(cancel, id), reply+"$7\r\npending\r\n"
		}
		w.want("+OK\r\n", "MULTI")
		w.want("+QUEUED\r\n", strings.Join(cancel, " "))
		if got := w.do("EXEC"); !strings.Contains(got, "name fewer") {
			t.Errorf("inside a transaction: %.200q", got)
		}
		w.want(reply, strings.Join(cancel, " "))
	})
}
