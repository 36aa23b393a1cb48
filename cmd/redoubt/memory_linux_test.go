package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// resident returns the peak resident memory of a process, in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// TestMemoryIsKept: with maxmemory and a directory the process uses at most twice maxmemory plus the base of
// docs/engine.md, while keys are evicted and the log is compacted. It takes seconds to write several times the
// limit.
func TestMemoryIsKept(t *testing.T) {
	slow.Test(t, "it fills the memory of a server")
	const limit, base = 48 << 20, 64 << 20
	s := startServe(t, "--dir="+t.TempDir(), fmt.Sprintf("--maxmemory=%d", limit), "--maxmemory-policy=allkeys-lru")
	rdb := dial(t, s.addr)
	load := func(n, batch int, add func(p redis.Pipeliner, i int)) {
		t.Helper()
		for i := 0; i < n; {
			p := rdb.Pipeline()
			for range batch {
				add(p, i)
				i++
			}
			if _, err := p.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	compact := func() {
		t.Helper()
		_ = rdb.BgRewriteAOF(t.Context()).Err() // one may be running
	}
	small, large := strings.Repeat("s", 1000), strings.Repeat("l", 100_000)
	load(50_000, 500, func(p redis.Pipeliner, i int) { p.Set(t.Context(), fmt.Sprintf("s:%d", i), small, 0) })
	compact()
	load(1000, 10, func(p redis.Pipeliner, i int) { p.Set(t.Context(), fmt.Sprintf("l:%d", i), large, 0) })
	compact()
	load(100_000, 1000, func(p redis.Pipeliner, i int) { p.HSet(t.Context(), fmt.Sprintf("h:%d", i), "f", i, "g", "0123456789") })
	load(100_000, 1000, func(p redis.Pipeliner, i int) {
		p.ZAdd(t.Context(), fmt.Sprintf("z:%d", i%50_000), redis.Z{Score: float64(i), Member: i})
	})
	compact()
	eventually(t, "the log is compacted", func() bool {
		return strings.Contains(rdb.Info(t.Context(), "persistence").Val(), "aof_rewrite_in_progress:0")
	})
	peak := resident(t, s.cmd.Process.Pid)
	t.Logf("at most %d MiB", peak>>20)
	if peak > 2*limit+base {
		t.Errorf("it took %d MiB; want at most twice %d MiB, and %d", peak>>20, limit>>20, base>>20)
	}
}

// TestClientsKeepToTheirBudget: idle clients, clients that don't read large replies, unread pipelines and stopped
// subscribers use no more memory than docs/engine.md states, and the server keeps serving another client.
// MEMORY=full has 9,000 idle clients, and ten times as many others.
func TestClientsKeepToTheirBudget(t *testing.T) {
	slow.Test(t, "it connects hundreds of clients")
	const maxMemory, base, each = 16 << 20, 64 << 20, 6 << 10
	clients, idle, many := 32<<20, 1000, 50
	if os.Getenv("MEMORY") == "full" {
		clients, idle, many = 256<<20, 9000, 500
	}
	s := startServe(t, fmt.Sprintf("--maxmemory=%d", maxMemory), fmt.Sprintf("--maxmemory-clients=%d", clients))
	rdb := dial(t, s.addr)
	if err := rdb.Set(t.Context(), "large", strings.Repeat("v", 1_000_000), 0).Err(); err != nil {
		t.Fatal(err)
	}
	open := func(n int, text string) {
		t.Helper()
		for range n {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			go func() { _, _ = io.WriteString(conn, text) }()
		}
	}
	open(idle, "PING\r\n")
	open(many, strings.Repeat("GET large\r\n", 20))
	open(many, strings.Repeat("GET large\r\nPING\r\n", 2000))
	open(many/5, "SUBSCRIBE news\r\n")
	eventually(t, "the subscribers listen", func() bool {
		return rdb.PubSubNumSub(t.Context(), "news").Val()["news"] > 0
	})
	message := strings.Repeat("m", 100_000)
	for range 300 {
		if err := rdb.Publish(t.Context(), "news", message).Err(); err != nil {
			t.Fatal(err)
		}
		if n, err := rdb.StrLen(t.Context(), "large").Result(); err != nil || n != 1_000_000 {
			t.Fatalf("another client is answered %d, %v", n, err)
		}
	}
	most := int64(2*maxMemory + base + 2*clients + (idle+2*many+many/5)*each)
	peak := resident(t, s.cmd.Process.Pid)
	t.Logf("at most %d MiB of %d", peak>>20, most>>20)
	if peak > most {
		t.Errorf("it took %d MiB; want at most %d", peak>>20, most>>20)
	}
}
