package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// limited checks a reply of the LIMIT family: allowed, remaining, retry and
// reset in ms, and the limit that refuses. Times may have gone down by a minute.
func limited(t *testing.T, w *wire, command string, want ...int64) []any {
	t.Helper()
	got, ok := w.value(strings.Fields(command)...).([]any)
	if !ok || len(got) < 5 {
		t.Fatalf("%s: %#v", command, got)
	}
	for i, n := range want {
		g, ok := got[i].(int64)
		if timed := i == 2 || i == 3 || i == 5; !ok || g != n && (!timed || n <= 0 || g > n || g < n-60_000) {
			t.Errorf("%s: %v, want %v", command, got, want)
			break
		}
	}
	return got
}

func TestLimitCommands(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		key := b.Prefix + "user:42"
		const hour = 3_600_000

		take := "LIMIT.TAKE " + key + " %d 2 3600000 2 10 36000000 3"
		limited(t, w, fmt.Sprintf(take, 0), 1, 2, 0, 0, -1)
		limited(t, w, fmt.Sprintf(take, 2), 1, 0, 0, 2*hour, -1)
		limited(t, w, fmt.Sprintf(take, 1), 0, 0, hour/2, 2*hour, 0)
		limited(t, w, fmt.Sprintf(take, 3), 0, 0, -1, 2*hour, 0)
		limited(t, w, "LIMIT.PEEK "+key+" 2 3600000 2 10 36000000 3", 0, 0, hour/2, 2*hour, 0)
		limited(t, w, "LIMIT.REFUND "+key+" 1 x 2 3600000 2 10 36000000 3", 1, 1, 0, hour, -1)
		limited(t, w, "limit.refund "+key+" 1 x 2 3600000 2 10 36000000 3", 1, 1, 0, hour, -1)
		w.want(":1\r\n", "LIMIT.RESET "+key)
		w.want(":0\r\n", "limit.reset "+key)

		limited(t, w, "LIMIT.WINDOW "+key+" 3 3 3600000", 1, 0, 0, hour, -1)
		limited(t, w, "LIMIT.WINDOW "+key+" 1 3 3600000", 0, 0, hour, hour, 0)
		limited(t, w, "LIMIT.WINDOW "+key+" 0 9 1000 4 3600000", 1, 1, 0, hour, -1)

		got := limited(t, w, "LIMIT.QUOTA "+key+" 5 5 YEAR Europe/Paris", 1, 0, 0)
		again := limited(t, w, "LIMIT.QUOTA "+key+" 1 5 year Europe/Paris", 0, 0)
		if year := int64(366 * 24 * hour); got[3].(int64) > year || got[4] != int64(-1) || again[2] != again[3] || again[4] != int64(0) {
			t.Errorf("LIMIT.QUOTA: %v, then %v", got, again)
		}
		w.want(":1\r\n", "LIMIT.RESET "+key)

		reserve := "LIMIT.RESERVE " + key + " 1 MAX 7200000 1 3600000 1"
		limited(t, w, reserve, 1, 0, 0, hour, -1, 0)
		first := limited(t, w, reserve, 1, 0, 0, 2*hour, -1, hour)
		last := limited(t, w, reserve, 1, 0, 0, 3*hour, -1, 2*hour)
		if refused := limited(t, w, reserve, 0, 0, 3*hour, 3*hour, 0, 0); refused[6] != "" {
			t.Errorf("refused with a receipt: %v", refused)
		}
		for range 2 {
			if v := w.value("LIMIT.CANCEL", key, last[6].(string)); v != int64(1) {
				t.Errorf("LIMIT.CANCEL: %v", v)
			}
		}
		limited(t, w, reserve, 1, 0, 0, 3*hour, -1, 2*hour)
		if v := w.value("LIMIT.CANCEL", key, first[6].(string)); v != int64(1) {
			t.Errorf("LIMIT.CANCEL of what others came after: %v", v)
		}
		limited(t, w, reserve, 0)
	})
}

func TestStoredLimits(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		name := b.Prefix + "partner"
		for _, c := range []string{"LIMIT.USE " + name + " 1", "LIMIT.PEEK " + name, "LIMIT.REFUND " + name + " 1 x"} {
			w.want("-NOTCONFIGURED redoubt: no limit is defined under this name\r\n", c)
		}
		w.want("*-1\r\n", "LIMIT.DEFINE "+name)
		w.want(":1\r\n", "LIMIT.DEFINE "+name+" nx 10 3600000 10")
		w.want(":0\r\n", "LIMIT.DEFINE "+name+" NX 20 3600000 20")
		limited(t, w, "LIMIT.USE "+name+" 3", 1, 7)
		w.want(":1\r\n", "LIMIT.DEFINE "+name+" 20 3600000 20 5 1000 6")
		w.want("*2\r\n*3\r\n:20\r\n:3600000\r\n:20\r\n*3\r\n:5\r\n:1000\r\n:6\r\n", "LIMIT.DEFINE "+name)
		limited(t, w, "LIMIT.PEEK "+name, 1, 6)
		limited(t, w, "LIMIT.USE "+name+" 7", 0, 6, -1)
		limited(t, w, "LIMIT.REFUND "+name+" 9 x", 1, 6)
	})
}

// Clients that wait are served in turn. A client that would wait too long is refused at
// once. A client that disconnects gives its place back.
func TestLimitWait(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		a, o := dial(t, addr), dial(t, addr)
		key := b.Prefix + "a"

		begin := time.Now()
		for range 3 {
			limited(t, a, "LIMIT.WAIT "+key+" 1 1 30 1", 1, 0)
		}
		if d := time.Since(begin); d < 60*time.Millisecond {
			t.Errorf("three at one in 30 ms after %v", d)
		}
		hour := b.Prefix + "hour"
		limited(t, a, "LIMIT.WAIT "+hour+" 2 2 7200000 2", 1, 0)
		limited(t, a, "LIMIT.WAIT "+hour+" 1 MAX 1000 2 7200000 2", 0, 0, 3_600_000, 7_200_000, 0)
		limited(t, a, "LIMIT.WAIT "+hour+" 3 MAX 0 2 7200000 2", 0, 0, -1)

		gone := dial(t, addr)
		gone.send("LIMIT.WAIT", hour, "1", "2", "7200000", "2")
		ahead := func() int64 {
			v := o.value("LIMIT.PEEK", hour, "2", "7200000", "2").([]any)
			return v[3].(int64)
		}
		eventually(t, "it has its place", func() bool { return ahead() > 7_200_000 })
		_ = gone.conn.Close()
		eventually(t, "its place is given back", func() bool { return ahead() <= 7_200_000 })

		a.want("+OK\r\n", "MULTI")
		a.want("+QUEUED\r\n", "LIMIT.WAIT "+hour+" 1 2 7200000 2")
		a.want("+QUEUED\r\n", "LIMIT.TAKE "+hour+" 1 2 7200000 2")
		v, ok := a.value("EXEC").([]any)
		if !ok || len(v) != 2 || fmt.Sprint(v[0]) != fmt.Sprint(v[1]) && v[0].([]any)[0] != int64(0) {
			t.Errorf("EXEC: %#v", v)
		}
	})
}

// A key of another type is an error of one line.
func TestLimitWrongType(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		for _, part := range []string{"gcra", "window", "quota", "limit"} {
			if v := w.value("RPUSH", "rd:{"+b.Prefix+"x}:"+part, "1"); v != int64(1) {
				t.Fatalf("RPUSH: %v", v)
			}
		}
		for _, c := range []string{"LIMIT.TAKE X 1 1 1 1", "LIMIT.WINDOW X 1 1 1", "LIMIT.QUOTA X 1 1 DAY UTC", "LIMIT.USE X 1", "LIMIT.PEEK X 1 1 1",
			"LIMIT.REFUND X 1 id 1 1 1", "LIMIT.RESERVE X 1 1 1 1", "LIMIT.WAIT X 1 1 1 1", "LIMIT.DEFINE X"} {
			w.want("-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", strings.Replace(c, "X", b.Prefix+"x", 1))
		}
	})
}
