package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

func do(t *testing.T, e *Engine, name string, args ...string) any {
	t.Helper()
	r := e.Do(t.Context(), redoubt.Cmd{Name: name, Args: args})
	if r.Err != nil {
		t.Fatalf("%s %q: %v", name, args, r.Err)
	}
	return r.Val
}

// hold locks the shard of a key, as a script that does not end would.
func hold(e *Engine, key string) (release func()) {
	sh := &e.shards[shardOf([]byte(key))]
	sh.mu.Lock()
	return sh.mu.Unlock
}

func TestCallersLeaveWhileOthersHoldTheLock(t *testing.T) {
	e := open(t, Options{})
	release := hold(e, "k")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	incr := redoubt.Cmd{Name: "INCR", Keys: []string{"k"}}
	get := redoubt.Cmd{Name: "GET", Keys: []string{"k"}, Flags: redoubt.ReadOnly}
	ping := redoubt.Cmd{Name: "PING"}
	if r := e.Do(ctx, incr); !errors.Is(r.Err, context.DeadlineExceeded) || !errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
		t.Errorf("INCR: %+v", r)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	rs := e.Pipeline(ctx, []redoubt.Cmd{ping, get, incr})
	if rs[0].Val != any("PONG") {
		t.Errorf("PING: %+v", rs[0])
	}
	for i, r := range rs[1:] { // the GET changes nothing, the INCR was never begun
		if !errors.Is(r.Err, context.DeadlineExceeded) || errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
			t.Errorf("command %d: %+v", i+1, r)
		}
	}
	release()
	// The first INCR runs now: it was under way when its caller left.
	eventually(t, "k is 1", func() bool { return do(t, e, "GET", "k") == any("1") })
}

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, 10*time.Second, what, ok)
}

func TestCallsShareNoState(t *testing.T) {
	e := open(t, Options{})
	do(t, e, "MULTI")
	do(t, e, "SELECT", "3")
	do(t, e, "SUBSCRIBE", "ch")
	do(t, e, "CLIENT REPLY", "OFF")
	do(t, e, "HELLO", "3")
	for i := range 20 {
		if got := do(t, e, "SET", fmt.Sprint("k", i), "v"); got != any("OK") {
			t.Fatalf("SET returned %v", got)
		}
	}
	s := e.Session()
	want(t, s, "DBSIZE", ":20\r\n")
	if got := do(t, e, "PUBSUB NUMSUB", "ch"); fmt.Sprint(got) != "[ch 0]" {
		t.Errorf("NUMSUB %v", got)
	}
}

func TestBlockedCallLeavesNothing(t *testing.T) {
	e := open(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	r := e.Do(ctx, redoubt.Cmd{Name: "BLPOP", Keys: []string{"q"}, Args: []string{"0"}, Flags: redoubt.Blocking})
	if !errors.Is(r.Err, context.DeadlineExceeded) {
		t.Fatalf("BLPOP: %+v", r)
	}
	do(t, e, "RPUSH", "q", "a")
	if n := do(t, e, "LLEN", "q"); n != any(int64(1)) {
		t.Errorf("the list has %v elements: a caller that left took one", n)
	}
}

func TestSlowListenerIsToldOfLoss(t *testing.T) {
	e := open(t, Options{})
	began, resume := make(chan struct{}), make(chan struct{})
	type event struct {
		payload string
		lost    bool
	}
	events := make(chan event, 1000)
	first := true
	stop, err := e.Subscribe(t.Context(), "ch", false, func(payload string, lost bool) {
		if first {
			first = false
			close(began)
			<-resume
		}
		events <- event{payload, lost}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	do(t, e, "PUBLISH", "ch", "first")
	<-began
	large := strings.Repeat("x", maxQueued/8)
	for range 10 {
		do(t, e, "PUBLISH", "ch", large)
	}
	do(t, e, "PUBLISH", "ch", "last")
	close(resume)
	if e := <-events; e.payload != "first" {
		t.Fatalf("got %q first", e.payload)
	}
	if e := <-events; !e.lost {
		t.Fatal("not told of the loss")
	}
	n := 0
	for e := <-events; e.payload != "last"; e = <-events {
		if e.lost {
			t.Fatal("told twice")
		}
		n++
	}
	if n == 0 || n >= 10 {
		t.Errorf("%d of 10 large messages came", n)
	}
}

func TestClosedEngineRefuses(t *testing.T) {
	e := open(t, Options{})
	got := make(chan redoubt.Reply)
	go func() {
		got <- e.Do(t.Context(), redoubt.Cmd{Name: "BLPOP", Keys: []string{"q"}, Args: []string{"0"}})
	}()
	eventually(t, "BLPOP waits", func() bool { return strings.Contains(do(t, e, "INFO", "clients").(string), "blocked_clients:1\r\n") })
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if r := <-got; r.Err == nil {
		t.Errorf("BLPOP returned %v", r.Val)
	}
	cmd := redoubt.Cmd{Name: "GET", Keys: []string{"k"}}
	if r := e.Do(t.Context(), cmd); !errors.Is(r.Err, ErrClosed) {
		t.Errorf("Do: %+v", r)
	}
	if rs := e.Pipeline(t.Context(), []redoubt.Cmd{cmd, cmd}); !errors.Is(rs[1].Err, ErrClosed) {
		t.Errorf("Pipeline: %+v", rs)
	}
	if _, err := e.Subscribe(t.Context(), "ch", false, func(string, bool) {}); !errors.Is(err, ErrClosed) {
		t.Errorf("Subscribe: %v", err)
	}
}

// TestEmptyArguments wants an argument that is empty to be one.
func TestEmptyArguments(t *testing.T) {
	e := open(t, Options{})
	for _, cmd := range []redoubt.Cmd{
		{Name: "SETEX", Keys: []string{"k"}, Args: []string{"", "v"}},
		{Name: "SET", Keys: []string{"k"}, Args: []string{"v", "EX", ""}},
		{Name: "GETEX", Keys: []string{"k"}, Args: []string{"EX", ""}},
		{Name: "EVAL", Args: []string{"return redis.call('setex', KEYS[1], '', 'v')", "1", "k"}},
	} {
		do(t, e, "SET", "k", "v")
		if r := e.Do(t.Context(), cmd); r.Err == nil || !strings.Contains(r.Err.Error(), "not an integer") {
			t.Errorf("%s: %+v", cmd.Name, r)
		}
	}
	do(t, e, "RPUSH", "l", "1")
	do(t, e, "SORT", "l", "STORE", "")
	if n := do(t, e, "LLEN", ""); n != any(int64(1)) {
		t.Errorf("the list with an empty name has %v elements", n)
	}
}
