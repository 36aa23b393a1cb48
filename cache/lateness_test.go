package cache_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// bound is how old what a local level serves may be while it is connected, as doc.go says.
const bound = 100 * time.Millisecond

// pulse returns the pulse of the servers and this process. A beat is a message that goes to
// all servers and comes back to this process, on connections of its own.
func (e *env) pulse() *await.Pulse {
	e.T.Helper()
	heard := make(chan struct{}, 100)
	channel := e.Prefix + "-pulse"
	stop, err := e.newClient().Subscribe(e.T.Context(), channel, func(string, bool) { heard <- struct{}{} })
	must(e.T, err)
	e.T.Cleanup(stop)
	messages := 1
	beat := func(ctx context.Context) error { return e.Redis.Publish(ctx, channel, "").Err() }
	if cluster, ok := e.Redis.(*redis.ClusterClient); ok {
		messages = e.masters(cluster)
		beat = func(ctx context.Context) error {
			return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return c.Publish(ctx, channel, "").Err() })
		}
	}
	return await.NewPulseOf(e.T, func(ctx context.Context) {
		if err := beat(ctx); err != nil {
			return
		}
		for range messages {
			select {
			case <-heard:
			case <-ctx.Done():
			}
		}
	})
}

// masters is how many nodes hear a message.
func (e *env) masters(cluster *redis.ClusterClient) int {
	var n atomic.Int64
	must(e.T, cluster.ForEachMaster(e.T.Context(), func(context.Context, *redis.Client) error {
		n.Add(1)
		return nil
	}))
	return int(n.Load())
}

// A history knows since when each number is old, by a pulse and by the clock.
type history struct {
	pulse *await.Pulse
	since []struct{ pulse, wall atomic.Int64 }

	reads, worst, worstWall atomic.Int64
}

func newHistory(p *await.Pulse, writes int) *history {
	return &history{pulse: p, since: make([]struct{ pulse, wall atomic.Int64 }, writes+2)}
}

// replaced notes that a number is old.
func (h *history) replaced(n int64) {
	h.since[n].wall.Store(time.Now().UnixNano())
	h.since[n].pulse.Store(int64(h.pulse.Now()) + 1)
}

// check fails the test when what was read began to be old more than most before a time.
func (h *history) check(t *testing.T, text string, pulse time.Duration, wall time.Time, most time.Duration) {
	n, err := strconv.ParseInt(text, 10, 64)
	must(t, err)
	h.reads.Add(1)
	since := h.since[n].pulse.Load()
	age := pulse - time.Duration(since)
	if since == 0 || age <= 0 {
		return
	}
	if age > most {
		t.Errorf("%d was read %v after it was invalidated, by the pulse", n, age)
	}
	rise(&h.worst, int64(age))
	rise(&h.worstWall, wall.UnixNano()-h.since[n].wall.Load())
}

func rise(most *atomic.Int64, n int64) {
	for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
	}
}

// read reads until ctx ends, and checks what it gets.
func (h *history) read(ctx context.Context, t *testing.T, c *cache.Cache[string, string], load cache.Loader[string, string], most time.Duration) {
	pace := time.NewTicker(200 * time.Microsecond) // readers that hit the local level would leave no time to the others
	defer pace.Stop()
	for ; ctx.Err() == nil; <-pace.C {
		began, wall := h.pulse.Now(), time.Now()
		v, found, err := c.Get(ctx, "r", load)
		if ctx.Err() != nil {
			return
		}
		if err != nil || !found {
			t.Errorf("found: %v, %v", found, err)
			return
		}
		h.check(t, v, began, wall, most)
	}
}

// After an invalidation the values in other processes are no older than the bound.
//
// Promise: while a process is connected, its local level lags by at most 100 ms after an Invalidate
// or Set; while it is not, it serves no value older than LocalTTL plus StaleIfError.
func TestOtherLocalLevelsAgainstWrites(t *testing.T) {
	each(t, func(t *testing.T, e *env) {
		times := 300
		if full() {
			times = 100_000
		}
		a, r, h := e.users(), newRegister(t), newHistory(e.pulse(), times)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var readers sync.WaitGroup
		for range 2 {
			c := e.users(withLocal)
			eventually(t, "it listens", c.Heard)
			for range 3 {
				readers.Go(func() { h.read(ctx, t, c, r.load, bound) })
			}
		}
		for n := range times {
			must(t, r.write(ctx, func(ctx context.Context) error {
				if n%4 == 3 {
					return a.Set(ctx, "r", strconv.FormatInt(r.value.Load(), 10))
				}
				return a.Invalidate(ctx, "r")
			}))
			h.replaced(int64(n))
			if was := h.reads.Load(); n%16 == 0 && !t.Failed() { // what is there is kept, and read again
				for end := time.Now().Add(5 * time.Millisecond); h.reads.Load() < was+20 && time.Now().Before(end); {
					runtime.Gosched()
				}
			}
		}
		// A process that has not got the invalidation by now never does; the bound shows it.
		end := h.pulse.Now() + 2*bound
		await.Until(t, 2*time.Minute, "the bound is over", func() bool { return t.Failed() || h.pulse.Now() > end })
		cancel()
		readers.Wait()
		h.log(t)
	})
}

func (h *history) log(t *testing.T) {
	t.Logf("%d reads; the oldest was invalidated for %v by the pulse, for %v by the clock",
		h.reads.Load(), time.Duration(h.worst.Load()), time.Duration(h.worstWall.Load()))
	if h.reads.Load() == 0 || full() && h.worst.Load() == 0 { // a short run may see nothing old
		t.Error("nothing was read that was old: nothing was tested")
	}
}

// While the server is down no value is older than LocalTTL, and afterwards values are fresh again.
//
// Promise: while a process is connected, its local level lags by at most 100 ms after an Invalidate
// or Set; while it is not, it serves no value older than LocalTTL plus StaleIfError.
func TestLocalLevelsAgainstRestarts(t *testing.T) {
	t.Parallel()
	restarts := 3
	if full() {
		restarts = 100
	}
	const ttl, writes = 300 * time.Millisecond, 20
	server := redistest.Start(t)
	e := newEnv(t, "p", func() redis.UniversalClient {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DialTimeout: time.Second})
		clienttest.Watch(t, rdb)
		return rdb
	})
	quick := func(o *options) { o.Timeout, o.Lease = 200*time.Millisecond, 500*time.Millisecond }
	a, long, short := e.users(quick), e.users(withLocal, quick), e.users(withLocal, quick, func(o *options) { o.LocalTTL = ttl })
	r, h := newRegister(t), newHistory(await.NewPulse(t), restarts*(writes+1))
	sees := func(c *cache.Cache[string, string], key string) func() bool {
		return func() bool {
			v, _, err := c.Get(t.Context(), key, r.loadAtOnce)
			must(t, err)
			return v == strconv.FormatInt(r.value.Load(), 10)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() { h.read(ctx, t, short, r.loadAtOnce, ttl+bound) })
	}
	for range restarts {
		for range writes {
			n := r.value.Add(1)
			eventually(t, "it is invalidated", func() bool { return a.Invalidate(t.Context(), "r") == nil })
			h.replaced(n - 1)
		}
		kept(t, long, "l", r.loadAtOnce) // a key that no message is about, which might come late
		kept(t, short, "r", r.loadAtOnce)
		server.Kill()
		h.replaced(r.value.Add(1) - 1) // nobody can tell
		eventually(t, "the one that keeps for a short time sees it", sees(short, "r"))
		if sees(long, "l")() {
			t.Error("the one that keeps for long has seen it: it was not to be kept")
		}
		server.Restart()
		eventually(t, "the one that keeps for long sees it", sees(long, "l"))
	}
	cancel()
	readers.Wait()
	h.log(t)
}
