package engine

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// fill makes n elements by a line in which %d stands for a number.
func fill(e *Engine, line string, n int) {
	s := e.Session()
	defer s.Close()
	var out []byte
	words := strings.Fields(line)
	args := make([][]byte, len(words))
	for i := range n {
		for j, w := range words {
			args[j] = []byte(strings.ReplaceAll(w, "%d", fmt.Sprint(i)))
		}
		out, _ = s.Do(out[:0], args)
	}
}

// probe runs short commands on keys of all shards but that of the key busy, one
// each 100 µs, until stop is closed, and returns how long they took.
func probe(e *Engine, stop <-chan struct{}) *histogram {
	var h histogram
	s := e.Session()
	defer s.Close()
	var out []byte
	pace := time.NewTicker(100 * time.Microsecond)
	defer pace.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return &h
		case <-pace.C:
		}
		args := [][]byte{[]byte("SET"), fmt.Appendf(nil, "probe%d", i%1000), []byte("v")}
		if shardOf(args[1]) == shardOf([]byte("busy")) {
			continue
		}
		at := time.Now()
		out, _ = s.Do(out[:0], args)
		h.add(time.Since(at))
	}
}

// TestLargeWorkDoesNotPause runs commands on much data while another client works. Half of that
// client's commands take less than 5 ms, however busy the machine is. With ENGINE_FAULTS=full, on
// an idle machine and beside a million of everything, all but one in 10,000 do.
//
// Promise: Work on a large amount of data does not pause other clients.
func TestLargeWorkDoesNotPause(t *testing.T) {
	slow.Test(t, "its commands work on very large values")
	n := thorough(1_000_000, 20_000)
	for _, w := range []struct {
		name, fill string
		work       func(t *testing.T, e *Engine)
	}{
		{"expiry", "SET key:%d v PX 100000000", func(t *testing.T, e *Engine) {
			clock := e.clock.(*fakeClock)
			clock.advance(200000 * time.Second) // and sweeps, in this goroutine
			eventually(t, "all keys have expired", func() bool { return e.stats.expired.Load() == int64(n) })
		}},
		{"expiry in one slot", "SET {t}key:%d v PX 100000000", func(t *testing.T, e *Engine) {
			clock := e.clock.(*fakeClock)
			clock.advance(200000 * time.Second)
			eventually(t, "all keys have expired", func() bool { return e.stats.expired.Load() == int64(n) })
		}},
		{"FLUSHALL", "SET key:%d v", func(_ *testing.T, e *Engine) { run(e.Session(), "FLUSHALL") }},
		{"DEL of a hash", "HSET hash field:%d v", func(_ *testing.T, e *Engine) { run(e.Session(), "DEL hash") }},
		{"UNLINK of a sorted set", "ZADD zset %d member:%d", func(_ *testing.T, e *Engine) { run(e.Session(), "UNLINK zset") }},
		{"SET over a list", "RPUSH list element:%d", func(_ *testing.T, e *Engine) { run(e.Session(), "SET list v") }},
		{"compaction", "SET key:%d v", func(t *testing.T, e *Engine) {
			if err := e.Compact(t.Context()); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(w.name, func(t *testing.T) {
			opts := Options{Clock: newFakeClock()}
			if w.name == "compaction" {
				opts = Options{Dir: t.TempDir(), Fsync: aof.Never}
			}
			e := open(t, opts)
			fill(e, w.fill, n)
			stop := make(chan struct{})
			done := make(chan *histogram, 1)
			go func() { done <- probe(e, stop) }()
			eventually(t, "the probe works", func() bool { return strings.Contains(run(e.Session(), "EXISTS probe99"), ":1") })
			began := time.Now()
			w.work(t, e)
			took := time.Since(began)
			// The collector comes behind.
			eventually(t, "it has gone on for a while", func() bool { return time.Since(began) > max(2*took, 50*time.Millisecond) })
			close(stop)
			h := <-done
			t.Logf("%v for %d; beside it %v", took, n, h)
			part := 0.5
			if os.Getenv("ENGINE_FAULTS") == "full" {
				part = 0.9999
			}
			if d := h.part(part); d > 5*time.Millisecond {
				t.Errorf("%g of the commands beside it took up to %v", part, d)
			}
		})
	}
}

// TestSlowScriptInProcess runs scripts of 10 ms on one shard, one after the other. Half of the
// commands on other shards take less than 1 ms beside them, and with ENGINE_FAULTS=full 99 of 100.
//
// Promise: A slow command holds up only commands on the same shards.
func TestSlowScriptInProcess(t *testing.T) {
	e := open(t, Options{})
	s := e.Session()
	const million = 1_000_000
	script := func(turns int) time.Duration {
		began := time.Now()
		s.Do(nil, [][]byte{[]byte("EVAL"), []byte("for i = 1, tonumber(ARGV[1]) do end return redis.call('INCR', KEYS[1])"), []byte("1"), []byte("busy"), fmt.Append(nil, turns)})
		return time.Since(began)
	}
	turns := int(million * (10 * time.Millisecond).Seconds() / min(script(million), script(million)).Seconds())
	stop, done := make(chan struct{}), make(chan *histogram, 1)
	go func() { done <- probe(e, stop) }()
	n := thorough(300, 30)
	began := time.Now()
	for range n {
		script(turns)
	}
	took := time.Since(began)
	close(stop)
	h := <-done
	t.Logf("%d scripts of %v; beside them %v", n, took/time.Duration(n), h)
	part := 0.5
	if os.Getenv("ENGINE_FAULTS") == "full" {
		part = 0.99
	}
	if d := h.part(part); d > time.Millisecond || h.n < n {
		t.Errorf("of %d commands %g took up to %v", h.n, part, d)
	}
}
