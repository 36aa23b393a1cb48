package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/await"
)

// cpuTime is what the threads of a process have used so far.
func cpuTime(t *testing.T, pid int) (total time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		var ns int64
		if _, err := fmt.Sscan(string(text), &ns); err != nil {
			t.Fatal(err)
		}
		total += time.Duration(ns)
	}
	return total
}

// TestIdle wants a server that nobody asks for anything to use about a thousandth of a
// core at most, with clients and without. It may use twice as much here: on a busy
// machine each time that it wakes costs more.
func TestIdle(t *testing.T) {
	length := 2 * time.Second
	if os.Getenv("ENGINE_FAULTS") == "full" {
		length = 10 * time.Second
	}
	s := startServe(t, "--dir="+t.TempDir())
	for _, clients := range []int{0, 200} {
		for range clients {
			if err := dial(t, s.addr).Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		// What was written is synced, and what was allocated collected.
		settled, tick := cpuTime(t, s.cmd.Process.Pid), time.NewTicker(200*time.Millisecond)
		defer tick.Stop()
		eventually(t, "it has settled", func() bool {
			<-tick.C
			before := settled
			settled = cpuTime(t, s.cmd.Process.Pid)
			return settled-before < time.Millisecond
		})
		before := cpuTime(t, s.cmd.Process.Pid)
		var used time.Duration
		await.Always(t, length, fmt.Sprintf("with %d clients it uses at most %v", clients, length/500), func() bool {
			used = cpuTime(t, s.cmd.Process.Pid) - before
			return used <= length/500
		})
		t.Logf("%d clients: %v in %v", clients, used, length)
	}
}
