package engine

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/engine/aof"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/expect"
)

var must = expect.Must

// A call that Close overtakes between its first check and the lock of its shard must not reply OK: the
// log is closed, and its change would be in no file.
func TestCloseOvertakesACall(t *testing.T) {
	for _, policy := range []aof.Policy{aof.EverySecond, aof.Always, aof.Never} {
		e := open(t, Options{Dir: t.TempDir(), Fsync: policy})
		exec := e.Session()
		run(exec, "MULTI")
		run(exec, "SET k v")
		must(t, e.Close())
		e.log = nil // which had its say before Close closed it
		for _, cmd := range []redoubt.Cmd{
			{Name: "SET", Keys: []string{"k"}, Args: []string{"v"}},
			{Name: "MSET", Keys: []string{"k"}, Args: []string{"v", "l", "v"}},
			{Name: "BLPOP", Keys: []string{"q"}, Args: []string{"0"}},
			{Name: "EVAL", Args: []string{"return redis.call('SET', KEYS[1], 'v')", "1", "k"}},
			{Name: "FLUSHALL"},
		} {
			l := e.takeSession()
			if wait, ran := l.run(&cmd, false); wait != nil || !ran || !errors.Is(reply(l.out).Err, ErrClosed) {
				t.Errorf("%s, %s: %q, want ErrClosed", policy, cmd.Name, l.out)
			}
			l = e.takeSession()
			if wait, ran := l.run(&cmd, true); wait != nil || ran {
				t.Errorf("%s, %s, trying: %q, want nothing", policy, cmd.Name, l.out)
			}
			var replies [1]redoubt.Reply
			e.runAsync(t.Context(), []redoubt.Cmd{cmd}, replies[:])
			if !errors.Is(replies[0].Err, ErrClosed) {
				t.Errorf("%s, %s, on its own: %v, want ErrClosed", policy, cmd.Name, replies[0])
			}
		}
		begins(t, run(exec, "EXEC"), "-"+closed)
	}
}

// A watchedClock calls a function whenever its time is read.
type watchedClock struct {
	*fakeClock

	onNow atomic.Pointer[func()]
}

func (c *watchedClock) Now() time.Time {
	if f := c.onNow.Load(); f != nil {
		(*f)()
	}
	return c.fakeClock.Now()
}

// Close saves earlier changes, and overtakes a call that has passed the first check: the call removes many expired
// fields before its change, and Close gets the shard between two steps. The call continues after Close has
// returned. It must not confirm a change that the closed log can't have.
//
// Promise: After Close of an engine with a directory, every change that a caller was told of is on disk.
func TestCloseSavesWhatCallersWereTold(t *testing.T) {
	clock := &watchedClock{fakeClock: newFakeClock()}
	opts := Options{Dir: t.TempDir(), Fsync: aof.Never, Clock: clock}
	e := open(t, opts)
	e.sweeper.off.Store(true)
	const fields = 400 * fieldStep
	for n := 0; n < fields; n += fieldStep {
		args := []string{"h", "PX", "1", "FIELDS", strconv.Itoa(fieldStep)}
		for i := range fieldStep {
			args = append(args, strconv.Itoa(n+i), "v")
		}
		do(t, e, "HSETEX", args...)
	}
	clock.advance(time.Second)
	do(t, e, "SET", "before", "1")
	_, blocked := e.Session().Do(nil, [][]byte{[]byte("BLPOP"), []byte("{h}list"), []byte("0")}) // until Close
	closed := make(chan error, 1)
	overtaken := false
	sh := &e.shards[shardOf([]byte("h"))]
	onNow := func() {
		switch {
		case sh.mu.TryLock(): // the call doesn't have the shard yet
			sh.mu.Unlock()
		case !e.closed.Load():
			go func() { closed <- e.Close() }()
			await.Soon(t, "Close has begun", e.closed.Load)
		case len(sh.blocked) == 0 && !overtaken: // Close has had the shard
			overtaken = true
			must(t, <-closed)
		}
	}
	clock.onNow.Store(&onNow)
	r := e.Do(context.Background(), redoubt.Cmd{Name: "HSET", Keys: []string{"h"}, Args: []string{"told", "1"}})
	clock.onNow.Store(nil)
	<-blocked.Done()
	if !overtaken {
		t.Fatal("Close did not overtake the call")
	}
	if !errors.Is(r.Err, ErrClosed) {
		t.Errorf("HSET: %v, want ErrClosed", r)
	}
	e = open(t, opts)
	if got := do(t, e, "HEXISTS", "h", "told"); r.Err == nil && got != int64(1) {
		t.Error("the caller was told of a change that is not on disk")
	}
	if got := do(t, e, "GET", "before"); got != "1" {
		t.Errorf("a change before Close is %v, want 1", got)
	}
}

// Close while callers write loses nothing of what they were told.
func TestCloseUnderCallers(t *testing.T) {
	const callers = 4
	opts := Options{Dir: t.TempDir(), Fsync: aof.Never}
	e := open(t, opts)
	var told [callers]int64
	var begun, all sync.WaitGroup
	begun.Add(callers)
	for i := range callers {
		all.Go(func() {
			ctx := context.Background()
			if i%2 == 0 {
				ctx = t.Context() // which can end
			}
			for n := int64(1); ; n++ {
				r := e.Do(ctx, redoubt.Cmd{Name: "INCR", Keys: []string{strconv.Itoa(i)}})
				if n == 1 {
					begun.Done()
				}
				if r.Err != nil {
					if !errors.Is(r.Err, ErrClosed) {
						t.Errorf("INCR: %v, want ErrClosed", r.Err)
					}
					return
				}
				told[i] = n
			}
		})
	}
	begun.Wait()
	must(t, e.Close())
	all.Wait()
	e = open(t, opts)
	for i, n := range told {
		if got := do(t, e, "GET", strconv.Itoa(i)); got != strconv.FormatInt(n, 10) {
			t.Errorf("key %d is %v, want %d", i, got, n)
		}
	}
}

// Close waits for the goroutines of callers that have left, and a second Close for the first.
func TestCloseWaits(t *testing.T) {
	dir := t.TempDir()
	e := open(t, Options{Dir: dir})
	called, leave := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(leave) })
	t.Cleanup(release)
	calls := 0
	_, err := e.Subscribe(t.Context(), "ch", false, func(string, bool) {
		calls++
		close(called)
		<-leave
	})
	must(t, err)
	do(t, e, "PUBLISH", "ch", "1")
	<-called
	do(t, e, "PUBLISH", "ch", "2") // must not be delivered after Close
	var ends [2]chan error
	for i := range ends {
		ends[i] = make(chan error, 1)
		go func() { ends[i] <- e.Close() }()
	}
	await.Soon(t, "Close waits for the goroutine that delivers", func() bool {
		e.background.mu.Lock()
		defer e.background.mu.Unlock()
		return e.background.over
	})
	await.Always(t, 20*time.Millisecond, "both calls of Close wait", func() bool { return len(ends[0])+len(ends[1]) == 0 })
	if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, aof.ErrLocked) {
		t.Errorf("Open meanwhile: %v, want ErrLocked", err)
	}
	release()
	must(t, <-ends[1])
	again, err := Open(t.Context(), Options{Dir: dir})
	must(t, err)
	must(t, again.Close())
	must(t, <-ends[0])
	e.hub.push([]byte("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\n3\r\n")) // of a publisher that Close has overtaken
	e.background.wg.Wait()
	if calls != 1 {
		t.Errorf("on was called %d times, want once", calls)
	}
}

// A script of a caller that has left is over when Close returns.
func TestCloseWaitsForScripts(t *testing.T) {
	e := open(t, Options{ScriptTimeout: -1})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan redoubt.Reply)
	go func() { left <- e.Do(ctx, redoubt.Cmd{Name: "EVAL", Args: []string{"while true do end", "0"}}) }()
	runs := func() int {
		e.scripts.mu.Lock()
		defer e.scripts.mu.Unlock()
		return len(e.scripts.runs)
	}
	await.Soon(t, "the script runs", func() bool { return runs() == 1 })
	leave()
	if r := <-left; !errors.Is(r.Err, context.Canceled) {
		t.Errorf("EVAL: %v", r.Err)
	}
	must(t, e.Close())
	if n := runs(); n != 0 {
		t.Errorf("%d scripts run after Close", n)
	}
}
