package server_test

import (
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// wantStock checks STOCK.INFO: total, available, reserved, sold, reservations.
func wantStock(t *testing.T, w *wire, name string, want ...int64) {
	t.Helper()
	v := w.value("STOCK.INFO", name)
	flat, ok := v.([]any)
	if m, isMap := v.(resp.Map); isMap {
		flat, ok = m, true
	}
	if !ok || len(flat) != 14 || flat[12] != "next_ms" {
		t.Fatalf("STOCK.INFO: %#v", v)
	}
	for i, name := range []string{"total", "available", "reserved", "sold", "reservations"} {
		if flat[2*i] != name || flat[2*i+1] != want[i] {
			t.Errorf("STOCK.INFO: %v, want %v", flat, want)
		}
	}
	next := flat[13].(int64)
	if want[4] == 0 && next != -1 || want[4] > 0 && (next <= 0 || next > 60_000) {
		t.Errorf("next_ms is %d with %d reservations", next, want[4])
	}
}

func TestStockList(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		_ = w.do("HELLO", "3")
		for _, name := range []string{"sku:1", "sku:2", "other"} {
			w.want(":5\r\n", "STOCK.SET "+b.Prefix+name+" 5")
		}
		w.want(array(bulk("o")), "STOCK.RESERVE "+b.Prefix+"sku:1 2 60000 ID o")
		found := map[string]int64{}
		for cursor := "0"; ; {
			reply, ok := w.value("STOCK.LS", "CURSOR", cursor, "match", b.Prefix+"sku:*").([]any)
			if !ok || len(reply) != 2 {
				t.Fatalf("STOCK.LS: %#v", reply)
			}
			for _, item := range reply[1].([]any) {
				m := item.(resp.Map)
				if len(m) != 16 || m[0] != "name" || m[2] != "total" || m[4] != "available" {
					t.Fatalf("STOCK.LS: %#v", m)
				}
				found[m[1].(string)] = m[5].(int64)
			}
			if cursor = reply[0].(string); cursor == "0" {
				break
			}
		}
		if want := map[string]int64{b.Prefix + "sku:1": 3, b.Prefix + "sku:2": 5}; !maps.Equal(found, want) {
			t.Errorf("available are %v, want %v", found, want)
		}
	})
}

func TestStock(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		name := b.Prefix + "sku:42"
		a, o := dial(t, addr), dial(t, addr)
		_ = o.do("HELLO", "3")

		a.want("*-1\r\n", "STOCK.RESERVE "+name+" 1 1000")
		a.want(":10\r\n", "stock.set "+name+" 10")
		wantStock(t, o, name, 10, 10, 0, 0, 0)
		for range 2 {
			a.want(array(bulk("o1")), "stock.reserve "+name+" 3 60000 id o1")
		}
		v, ok := o.value("STOCK.RESERVE", name, "2", "60000").([]any)
		if !ok || len(v) != 1 || len(v[0].(string)) != 32 {
			t.Fatalf("STOCK.RESERVE without an id: %#v", v)
		}
		wantStock(t, a, name, 10, 5, 5, 0, 2)
		o.want("_\r\n", "STOCK.RESERVE "+name+" 6 60000")
		a.want("-ERR redoubt: this ID has reserved 3, not 2\r\n", "STOCK.RESERVE "+name+" 2 60000 ID o1")
		for range 2 {
			a.want(":1\r\n", "STOCK.COMMIT "+name+" o1")
			a.want(":-1\r\n", "STOCK.CANCEL "+name+" o1")
			a.want(":1\r\n", "STOCK.CANCEL "+name+" "+v[0].(string))
			a.want(":-1\r\n", "STOCK.COMMIT "+name+" "+v[0].(string))
			a.want(":-2\r\n", "STOCK.COMMIT "+name+" none")
			a.want(":-2\r\n", "STOCK.CANCEL "+name+" neither")
		}
		a.want("-ERR redoubt: this ID is over: it was committed; use a new one\r\n", "STOCK.RESERVE "+name+" 3 60000 ID o1")
		a.want("-ERR redoubt: this ID is over: it was cancelled; use a new one\r\n", "STOCK.RESERVE "+name+" 3 60000 ID "+v[0].(string))
		wantStock(t, o, name, 10, 7, 0, 3, 0)

		a.want(":7\r\n", "STOCK.SET "+name+" 10")
		a.want(":12\r\n", "STOCK.ADD "+name+" 5")
		a.want("-ERR redoubt: only 12 are available, with 0 reserved and 3 sold\r\n", "STOCK.ADD "+name+" -13")
		a.want("-ERR redoubt: only 12 are available, with 0 reserved and 3 sold\r\n", "STOCK.SET "+name+" 2")
		a.want("-ERR redoubt: there would be more than 1000000000000000\r\n", "STOCK.ADD "+name+" 1000000000000000")
		a.want(":0\r\n", "STOCK.ADD "+name+" -12")

		// A reservation that ends returns its units.
		short := b.Prefix + "short"
		a.want(":1\r\n", "STOCK.SET "+short+" 1")
		a.want(array(bulk("first")), "STOCK.RESERVE "+short+" 1 20 ID first")
		eventually(t, "the unit is back", func() bool { return o.do("STOCK.RESERVE", short, "1", "60000", "ID", "next") == array(bulk("next")) })
		for range 2 {
			a.want(":0\r\n", "STOCK.COMMIT "+short+" first")
			a.want(":0\r\n", "STOCK.CANCEL "+short+" first")
		}
		a.want("-ERR redoubt: this ID is over: it ran out; use a new one\r\n", "STOCK.RESERVE "+short+" 1 1000 ID first")
		a.want(":1\r\n", "STOCK.COMMIT "+short+" next")

		// Inside a transaction.
		a.want("+OK\r\n", "MULTI")
		a.want("+QUEUED\r\n", "STOCK.ADD "+short+" 2")
		a.want("+QUEUED\r\n", "STOCK.RESERVE "+short+" 2 60000 ID tx")
		a.want("+QUEUED\r\n", "STOCK.COMMIT "+short+" tx")
		a.want(array(":2\r\n", array(bulk("tx")), ":1\r\n"), "EXEC")

		// Names and ids are binary-safe.
		if got := a.do("STOCK.SET", b.Prefix+"\x00\r\n", "1"); got != ":1\r\n" {
			t.Errorf("a binary name: %q", got)
		}
		if got := a.do("STOCK.RESERVE", b.Prefix+"\x00\r\n", "1", "60000", "ID", "\xff\r\n"); got != array(bulk("\xff\r\n")) {
			t.Errorf("a binary id: %q", got)
		}
		a.want(":1\r\n", "RPUSH rd:{"+b.Prefix+"list}:stock x")
		if got := a.do("STOCK.RESERVE", b.Prefix+"list", "1", "1000"); !strings.Contains(got, "WRONGTYPE") {
			t.Errorf("another type: %q", got)
		}
	})
}

// A thousand have run out, and one wants more than a call puts back.
func TestStockTryAgain(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w, name := dial(t, addr), b.Prefix+"n"
		const many = 1000
		w.want(":1000\r\n", "STOCK.SET "+name+" 1000")
		// They run out together, once all are there.
		w.want("+OK\r\n", "MULTI")
		for i := range many {
			w.want("+QUEUED\r\n", "STOCK.RESERVE "+name+" 1 700 ID o"+itoa(i))
		}
		if got := w.do("EXEC"); strings.Count(got, "$") != many {
			t.Fatalf("%d reserved, want %d", strings.Count(got, "$"), many)
		}
		last := w.value("ZRANGE", "rd:{"+name+"}:due", "-1", "-1", "WITHSCORES").([]any)[1].(string)
		eventually(t, "the last runs out", func() bool {
			now := w.value("TIME").([]any) // seconds and µs
			return now[0].(string)+strings.Repeat("0", 6-len(now[1].(string)))+now[1].(string) > last
		})
		// A small reservation is granted at once.
		w.want(array(bulk("few")), "STOCK.RESERVE "+name+" 400 60000 ID few")
		const again = "-TRYAGAIN redoubt: more than 512 reservations have run out and come back step by step; repeat the command\r\n"
		w.want(again, "STOCK.RESERVE "+name+" 600 60000 ID all")
		w.want(array(bulk("all")), "STOCK.RESERVE "+name+" 600 60000 ID all")
		wantStock(t, w, name, many, 0, many, 0, 2)
	})
}

// Many clients of one server want more than there is, over pipelines in which the
// scripts are forgotten again and again. Nobody commits before the reply to the
// reservation has come: of two scripts in one pipeline the second may run first
// when the first was forgotten.
func TestStockFlushedMidPipeline(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	w := dial(t, addr)
	const units, clients, each = 120, 5, 60
	w.want(":120\r\n", "STOCK.SET n 120")
	var sold atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		c := dial(t, addr)
		id := func(j int) string { return itoa(i) + "-" + itoa(j) }
		// pipeline sends a command for each id, and returns the replies.
		pipeline := func(command func(id string) []string) (replies [each]string, err error) {
			var all []byte
			for j := range each {
				if j%10 == i {
					all = resp.AppendCommand(all, "SCRIPT", "FLUSH")
				}
				all = resp.AppendCommand(all, command(id(j))...)
			}
			c.writeQuietly(all)
			for j := range each {
				if j%10 == i {
					if _, err = c.next(); err != nil {
						return replies, err
					}
				}
				if replies[j], err = c.next(); err != nil {
					return replies, err
				}
			}
			return replies, nil
		}
		wg.Go(func() {
			reserved, err := pipeline(func(id string) []string { return []string{"STOCK.RESERVE", "n", "1", "60000", "ID", id} })
			if err != nil {
				t.Error(err)
				return
			}
			committed, err := pipeline(func(id string) []string { return []string{"STOCK.COMMIT", "n", id} })
			if err != nil {
				t.Error(err)
				return
			}
			for j := range each {
				switch {
				case reserved[j] == array(bulk(id(j))) && committed[j] == ":1\r\n":
					sold.Add(1)
				case reserved[j] != "*-1\r\n" || committed[j] != ":-2\r\n":
					t.Errorf("%s: %q, then %q", id(j), reserved[j], committed[j])
				}
			}
		})
	}
	wg.Wait()
	if sold.Load() != units {
		t.Errorf("%d sold, want %d", sold.Load(), units)
	}
	wantStock(t, w, "n", units, 0, 0, units, 0)
}

// Units are given back whose client has gone before it got the reply, and with it
// the only copy of the id.
func TestStockOfAClientThatHasGone(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	gone, other := dial(t, addr), dial(t, addr)
	gone.want(":1\r\n", "STOCK.SET n 1")
	other.want("+PONG\r\n", "PING")
	backend.Pause()
	gone.send("STOCK.RESERVE", "n", "1", "600000")
	eventually(t, "it is sent", func() bool { return srv.Stats().Commands[server.Rewritten] == 2 })
	_ = gone.conn.(*net.TCPConn).SetLinger(0) // a reset: not only its sending side
	_ = gone.conn.Close()
	eventually(t, "the client is gone", func() bool { return srv.Stats().Clients == 1 })
	backend.Resume()
	eventually(t, "the unit is back", func() bool {
		return other.do("STOCK.RESERVE", "n", "1", "600000", "ID", "other") == array(bulk("other"))
	})
}
