package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
)

// cpuTime returns the processor time that the threads of a process have used.
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

// wakeUps returns how often the threads of a process have gone to sleep.
func wakeUps(t *testing.T, pid int) (total int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		var n int
		if _, err := fmt.Sscan(rest, &n); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}

// TestIdle: an idle server uses about a thousandth of a core, with clients and without. It wakes about 15 times a second, or 60 times in a second in which the
// collector runs. Its processor time may be ten times as long here, because a wake-up costs more on
// a busy machine.
func TestIdle(t *testing.T) {
	length := 2 * time.Second
	if os.Getenv("ENGINE_FAULTS") == "full" {
		length = 10 * time.Second
	}
	wakes, most := int(60*length/time.Second), length/100
	s := startServe(t, "--dir="+t.TempDir())
	for _, clients := range []int{0, 200} {
		for range clients {
			if err := dial(t, s.addr).Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		pid := s.cmd.Process.Pid
		var began time.Time
		var wakesBefore, woken int
		var timeBefore, used time.Duration
		begin := func() { began, wakesBefore, timeBefore = time.Now(), wakeUps(t, pid), cpuTime(t, pid) }
		idle := func() bool {
			woken, used = wakeUps(t, pid)-wakesBefore, cpuTime(t, pid)-timeBefore
			return woken <= wakes && used <= most
		}
		// Writes are synced and garbage is collected first, which takes a busy machine long.
		begin()
		await.Soon(t, "it has settled", func() bool {
			if !idle() {
				begin()
			}
			return time.Since(began) > length
		})
		begin()
		await.Always(t, length, fmt.Sprintf("with %d clients it wakes at most %d times and uses at most %v", clients, wakes, most), idle)
		t.Logf("%d clients: woken %d times, %v in %v", clients, woken, used, length)
	}
}
