//go:build unix

package main

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// writers increment counters, each its own, at the server that they are told. Each counts what was acknowledged.
type writers struct {
	to      atomic.Pointer[redis.Client]
	stop    atomic.Bool
	wg      sync.WaitGroup
	acked   [8]atomic.Int64
	unknown [8]atomic.Int64 // without an answer: done or not
}

func startWriters(t *testing.T, addr string) *writers {
	t.Helper()
	w := &writers{}
	w.moveTo(t, addr)
	for i := range w.acked {
		w.wg.Go(func() {
			for n := 0; !w.stop.Load(); n++ {
				c := w.to.Load()
				pipe := c.TxPipeline()
				pipe.Incr(t.Context(), fmt.Sprint("counter:", i))
				pipe.HSet(t.Context(), fmt.Sprint("hash:", i), fmt.Sprint(n%1000), n)
				pipe.Set(t.Context(), fmt.Sprintf("short:%d:%d", i, n%500), n, 50*time.Millisecond)
				switch _, err := pipe.Exec(t.Context()); {
				case err == nil:
					w.acked[i].Add(1)
				case redis.HasErrorPrefix(err, "NOREPLICAS"), redis.HasErrorPrefix(err, "READONLY"), redis.HasErrorPrefix(err, "EXECABORT"), strings.Contains(err.Error(), "connection refused"):
				default:
					w.unknown[i].Add(1)
				}
			}
		})
	}
	t.Cleanup(w.end)
	return w
}

func (w *writers) moveTo(t *testing.T, addr string) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	w.to.Store(c)
}

func (w *writers) end() {
	w.stop.Store(true)
	w.wg.Wait()
}

func (w *writers) sum() (n int64) {
	for i := range w.acked {
		n += w.acked[i].Load()
	}
	return n
}

// more waits until a hundred writes more were acknowledged.
func (w *writers) more(t *testing.T) {
	t.Helper()
	before := w.sum()
	await.Until(t, time.Minute, "writes go on", func() bool { return w.sum() >= before+100 })
}

// check compares the counters with what was acknowledged.
func (w *writers) check(t *testing.T, addr string) {
	t.Helper()
	w.end()
	for i := range w.acked {
		got, err := dial(t, addr).Get(t.Context(), fmt.Sprint("counter:", i)).Int64()
		if acked, unknown := w.acked[i].Load(), w.unknown[i].Load(); err != nil || got < acked || got > acked+unknown {
			t.Errorf("counter %d is %d, %v; %d were acknowledged, and %d had no answer", i, got, err, acked, unknown)
		}
	}
}

// TestFollow: while clients write, a program moves from Redis to the engine, and from the engine to another Redis,
// and loses nothing.
//
// Promise: a move by --follow and --switch loses and doubles no acknowledged write.
func TestFollow(t *testing.T) {
	old, next := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t)
	s := startServe(t)
	engine := "redis://" + s.addr
	dial(t, old.Addr()).Set(t.Context(), "large", strings.Repeat("x", 8<<20), 0)
	w := startWriters(t, old.Addr())
	w.more(t)

	dial(t, s.addr).Set(t.Context(), "here", "before", 0)
	moved(t, exitExists, []string{"is not empty (keys: 1)", "--replace deletes them"}, "import", old.URL(), "--follow", "--backend", engine)
	moved(t, exitFault, []string{"does not follow", "run this with --follow first; nothing was changed"}, "import", old.URL(), "--switch", "--backend", engine)
	moved(t, 0, []string{s.addr + " follows " + old.Addr(), "no difference"}, "import", old.URL(), "--follow", "--replace", "--backend", engine)
	if dial(t, s.addr).Exists(t.Context(), "here").Val() != 0 {
		t.Error("a key of the replica stayed")
	}
	moved(t, 0, []string{s.addr + " follows " + old.Addr()}, "import", old.URL(), "--follow", "--backend", engine)
	w.more(t)
	moved(t, 0, []string{s.addr + " takes writes now", "CONFIG SET min-replicas-to-write 0"}, "import", old.URL(), "--switch", "--backend", engine)
	w.moveTo(t, s.addr)
	w.more(t)

	moved(t, 0, []string{next.Addr() + " follows " + s.addr}, "import", engine, "--follow", "--backend", next.URL())
	w.more(t)
	moved(t, 0, []string{next.Addr() + " takes writes now"}, "import", engine, "--switch", "--backend", next.URL())
	w.moveTo(t, next.Addr())
	w.more(t)
	w.check(t, next.Addr())
}

// TestFollowSurvivesKills: both sides are killed on the way, and the move goes on.
func TestFollowSurvivesKills(t *testing.T) {
	old := redistest.Start(t, "--repl-diskless-sync-delay", "0", "--appendonly", "yes", "--appendfsync", "always", "--dir", t.TempDir())
	dir := t.TempDir()
	s := startServe(t, "--dir", dir)
	w := startWriters(t, old.Addr())
	w.more(t)
	moved(t, 0, nil, "import", old.URL(), "--follow", "--backend", "redis://"+s.addr)

	old.Kill()
	old.Restart()
	w.more(t)
	moved(t, 0, []string{"no difference"}, "import", old.URL(), "--follow", "--backend", "redis://"+s.addr)

	s.signal(syscall.SIGKILL)
	s.wait()
	w.more(t)
	s = startServe(t, "--dir", dir)
	moved(t, 0, []string{"no difference"}, "import", old.URL(), "--follow", "--replace", "--backend", "redis://"+s.addr)
	w.more(t)
	moved(t, 0, []string{"takes writes now"}, "import", old.URL(), "--switch", "--backend", "redis://"+s.addr)
	w.moveTo(t, s.addr)
	w.more(t)
	w.check(t, s.addr)
}
