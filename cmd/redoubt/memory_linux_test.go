package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// resident returns the greatest resident memory that a process has had, in bytes.
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

// TestMemoryIsKept: with maxmemory and a directory the process takes at most twice as much, and
// the base that docs/engine.md states, while keys are evicted and the log is compacted. It takes
// seconds to write several times the limit.
func TestMemoryIsKept(t *testing.T) {
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
