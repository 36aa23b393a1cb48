//go:build unix

package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func TestBench(t *testing.T) {
	srv := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Protocol: 2})
	defer rdb.Close()
	url := srv.URL()
	code, out, stderr := runToEnd(t, nil, "bench", url, "--time", "100ms", "--callers", "3", "--json")
	var all []measurement
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, stderr)
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
		if m.Calls < 3 || m.Seconds < .1 || m.P50 <= 0 || m.P99 < m.P50 || m.Most < m.P99 || m.PerSecond > float64(m.Calls)/.1 {
			t.Errorf("%+v", m)
		}
	}
	if want := "SET, GET, lock: acquire and release, limit: allow, queue: put, queue: put, take and settle, stock: reserve and commit, bloom: add"; strings.Join(names, ", ") != want {
		t.Errorf("measured %q", names)
	}
	// The rest expires.
	keys, err := rdb.Keys(context.Background(), "*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatal(len(keys), err)
	}
	for _, key := range keys {
		if ttl := rdb.PTTL(context.Background(), key).Val(); ttl <= 0 || ttl > 2*time.Minute || !strings.HasPrefix(key, "redoubt-bench:{") {
			t.Errorf("%s is left, with a time to live of %v", key, ttl)
		}
	}

	code, out, _ = runToEnd(t, nil, "bench", url, "--time", "100ms", "--only", "limit,get")
	if lines := strings.Split(out, "\n"); code != 0 || len(lines) != 6 || !strings.HasPrefix(lines[1], "GET ") || !strings.HasPrefix(lines[2], "limit: allow ") || !strings.Contains(lines[1], "█") {
		t.Errorf("exit %d: %s", code, out)
	}

	for _, c := range []struct{ args, want string }{
		{"--callers 0", "callers is 0; want 1 to 10000"},
		{"--time 1ms", "time is 1ms; want 100ms to 1h"},
		{"--only lock,spin", `only has "spin"; want a list of set, get, lock, limit, queue, stock, bloom`},
	} {
		if code, _, stderr := runToEnd(t, nil, append([]string{"bench", url}, strings.Fields(c.args)...)...); code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, stderr)
		}
	}
	if code, _, stderr := runToEnd(t, nil, "bench", "redis://127.0.0.1:1", "--time", "100ms"); code != exitUnavailable {
		t.Errorf("no server: exit %d, %s", code, stderr)
	}
}

func TestPlot(t *testing.T) {
	for _, c := range []struct {
		p50, p99, most float64
		want           string
	}{
		{1, 1, 1, "█"},
		{10, 100, 1000, "█──────······"},
		{1000, 1000, 1100, strings.Repeat(" ", 12) + "█"},
		{1e9, 1e9, 1e9, strings.Repeat(" ", 35) + "█"},
	} {
		if got := plot(measurement{P50: c.p50, P99: c.p99, Most: c.most}); got != c.want {
			t.Errorf("%v: %q, want %q", c, got, c.want)
		}
	}
}

func TestMeasurement(t *testing.T) {
	var times []time.Duration
	for i := range 1000 {
		times = append(times, time.Duration(1000-i)*time.Microsecond)
	}
	if m := measurementOf("x", 2*time.Second, slices.Clone(times)); m != (measurement{"x", 1000, 2, 500, 500, 990, 1000}) {
		t.Errorf("%+v", m)
	}
	if m := measurementOf("x", time.Second, nil); m.P99 != 0 || m.PerSecond != 0 {
		t.Errorf("%+v", m)
	}
}

// TestBenchInterrupted: after ^C bench still deletes the keys that don't expire.
func TestBenchInterrupted(t *testing.T) {
	srv := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Protocol: 2})
	defer rdb.Close()
	p := start(t, nil, "bench", srv.URL(), "--time", "1h", "--callers", "2", "--only", "queue")
	size := func() int64 { return rdb.DBSize(context.Background()).Val() }
	eventually(t, "messages", func() bool { return size() > 0 })
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 130 {
		t.Errorf("exit %d: %s", code, &p.stderr)
	}
	if n := size(); n != 0 {
		t.Errorf("%d keys are left: %v", n, rdb.Keys(context.Background(), "*").Val())
	}
}
