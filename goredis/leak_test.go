package goredis_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// TestNoLeaks holds that what callers leave behind ends by itself: with the
// client's time-out, although nothing is closed.
func TestNoLeaks(t *testing.T) {
	s := redistest.Start(t)
	proxy := faultnet.New(t, s.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: 300 * time.Millisecond, MinIdleConns: 0})
	c := wrapped(t, rdb)
	if r := c.Do(t.Context(), redoubt.Cmd{Name: "PING"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	before := goleak.IgnoreCurrent()
	stop, err := c.(redoubt.Subscriber).Subscribe(t.Context(), "ch", false, func(string, bool) {})
	if err != nil {
		t.Fatal(err)
	}
	proxy.Blackhole(faultnet.Both)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			cmd := redoubt.Cmd{Name: "INCR", Keys: []string{"k"}}
			var r redoubt.Reply
			switch i % 3 {
			case 0:
				r = c.Do(ctx, cmd)
			case 1:
				r = c.Pipeline(ctx, []redoubt.Cmd{cmd, cmd})[1]
			case 2:
				cmd = redoubt.Cmd{Name: "BLPOP", Keys: []string{"q"}, Args: []string{"0"}, Flags: redoubt.Blocking}
				r = c.Do(ctx, cmd)
			}
			if !errors.Is(r.Err, context.DeadlineExceeded) {
				t.Errorf("got %#v", r)
			}
		})
	}
	wg.Wait()
	stop()
	stop()
	proxy.Close() // its own goroutines
	var leaked error
	eventually(t, "the goroutines are gone", func() bool {
		leaked = goleak.Find(before, goleak.IgnoreAnyFunction("github.com/redoubt-go/redoubt/internal/test/redistest.(*process).start.func1"))
		if leaked != nil {
			t.Log(leaked)
		}
		return leaked == nil
	})
	if err := rdb.Close(); err != nil {
		t.Error(err)
	}
}

// TestSilentSubscription holds that a subscription whose connection has gone
// silent is made anew.
func TestSilentSubscription(t *testing.T) {
	slow.Test(t, "it waits 6 s for two unanswered pings")
	s := redistest.Start(t)
	proxy := faultnet.New(t, s.Addr())
	c := wrap(t, &redis.Options{Addr: proxy.Addr()})
	type event struct {
		payload string
		lost    bool
	}
	events := make(chan event, 100)
	stop, err := c.(redoubt.Subscriber).Subscribe(t.Context(), "ch", false, func(payload string, lost bool) {
		events <- event{payload, lost}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	pulse := await.NewPulse(t)
	start := pulse.Now()
	proxy.Blackhole(faultnet.Both)
	// It lasts until the old connection has been given up.
	eventually(t, "the connection is closed", func() bool { return proxy.Stats().Accepted > 1 })
	if d := pulse.Now() - start; d > 8*time.Second {
		t.Errorf("noticed after %v, want 6s", d)
	}
	proxy.Heal()
	select {
	case e := <-events:
		if !e.lost {
			t.Errorf("got %+v, want lost", e)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("not subscribed anew")
	}
	s.CLI("PUBLISH", "ch", "back")
	for e := range events {
		if e.payload == "back" {
			break
		}
	}
}
