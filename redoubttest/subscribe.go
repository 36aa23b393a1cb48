package redoubttest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
)

// An event is one call of a subscription's function.
type event struct {
	payload string
	lost    bool
}

// listen subscribes and returns what comes. The channel has room for all that a
// test sends, because the function must not block.
func listen(t *testing.T, c redoubt.Conn, channel string, sharded bool) (events chan event, stop func()) {
	t.Helper()
	sub, ok := c.(redoubt.Subscriber)
	if !ok {
		t.Skip("the Conn is no Subscriber")
	}
	events = make(chan event, 10_000)
	stop, err := sub.Subscribe(bounded(t), channel, sharded, func(payload string, lost bool) {
		events <- event{payload, lost}
	})
	if err != nil {
		t.Fatalf("subscribing to %q: %v", channel, err)
	}
	t.Cleanup(stop)
	return events, stop
}

// next returns the next event.
func next(t *testing.T, events chan event) event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-bounded(t).Done():
		t.Fatalf("nothing came within %v", patience)
		panic("unreachable")
	}
}

// publish sends messages one after the other.
func publish(t *testing.T, c redoubt.Conn, channel string, sharded bool, payloads ...string) {
	t.Helper()
	cmds := make([]redoubt.Cmd, len(payloads))
	for i, p := range payloads {
		cmds[i] = publication(channel, sharded, p)
	}
	for _, r := range c.Pipeline(bounded(t), cmds) {
		must(t, r)
	}
}

// publication routes PUBLISH by its channel too, so that all messages of one
// channel go the same way and keep their order.
func publication(channel string, sharded bool, payload string) redoubt.Cmd {
	name := "PUBLISH"
	if sharded {
		name = "SPUBLISH"
	}
	return redoubt.Cmd{Name: name, Keys: []string{channel}, Args: []string{payload}}
}

func testSubscribe(t *testing.T, open func(*testing.T) redoubt.Conn) {
	for _, sharded := range []bool{false, true} {
		name := "ordinary"
		if sharded {
			name = "sharded"
		}
		t.Run(name, func(t *testing.T) {
			if sharded {
				needsShardedPubSub(t, open(t))
			}
			testSubscriptions(t, open, sharded)
		})
	}
}

// needsShardedPubSub skips a test if the server is older than Redis 7.
func needsShardedPubSub(t *testing.T, c redoubt.Conn) {
	t.Helper()
	r := c.Do(bounded(t), publication(newKeys().together("none"), true, "x"))
	if redoubt.IsCode(r.Err, "ERR") {
		t.Skipf("the server has no sharded pub/sub: %v", r.Err)
	}
}

func testSubscriptions(t *testing.T, open func(*testing.T) redoubt.Conn, sharded bool) {
	t.Run("in order", func(t *testing.T) {
		c, k := open(t), newKeys()
		events, _ := listen(t, c, k.together("ch"), sharded)
		var payloads []string
		for i := range 500 {
			payloads = append(payloads, fmt.Sprint(i))
		}
		publish(t, c, k.together("ch"), sharded, payloads...)
		for _, want := range payloads {
			if e := next(t, events); e != (event{payload: want}) {
				t.Fatalf("got %+v, want %q", e, want)
			}
		}
	})

	t.Run("binary", func(t *testing.T) {
		c, k := open(t), newKeys()
		payload := "\x00\r\n\xff" + strings.Repeat("x", 1<<16)
		events, _ := listen(t, c, k.together("\r\n\xff"), sharded)
		publish(t, c, k.together("\r\n\xff"), sharded, payload, "")
		if e := next(t, events); e.payload != payload {
			t.Errorf("got %d other bytes", len(e.payload))
		}
		if e := next(t, events); e != (event{}) {
			t.Errorf("got %+v, want an empty payload", e)
		}
	})

	t.Run("many channels", func(t *testing.T) {
		c, k := open(t), newKeys()
		const n = 50
		events := make([]chan event, n)
		for i := range n {
			events[i], _ = listen(t, c, k.apart(i), sharded)
		}
		for i := range n {
			publish(t, c, k.apart(i), sharded, fmt.Sprint(i))
		}
		for i := range n {
			if e := next(t, events[i]); e != (event{payload: fmt.Sprint(i)}) {
				t.Errorf("channel %d got %+v", i, e)
			}
		}
	})

	t.Run("two on one channel", func(t *testing.T) {
		c, k := open(t), newKeys()
		a, stopA := listen(t, c, k.together("ch"), sharded)
		b, _ := listen(t, c, k.together("ch"), sharded)
		publish(t, c, k.together("ch"), sharded, "both")
		if e, f := next(t, a), next(t, b); e.payload != "both" || f.payload != "both" {
			t.Errorf("got %+v and %+v", e, f)
		}
		stopA()
		publish(t, c, k.together("ch"), sharded, "one")
		if e := next(t, b); e.payload != "one" {
			t.Errorf("got %+v", e)
		}
		if len(a) > 0 {
			t.Errorf("got %+v after stop", <-a)
		}
	})

	t.Run("stop and again", func(t *testing.T) {
		c, k := open(t), newKeys()
		marker, _ := listen(t, c, k.together("marker"), sharded)
		for i := range 10 {
			events, stop := listen(t, c, k.together("ch"), sharded)
			publish(t, c, k.together("ch"), sharded, fmt.Sprint(i))
			for {
				e := next(t, events)
				if e.lost {
					continue // allowed: a subscription may be made anew
				}
				if e.payload != fmt.Sprint(i) {
					t.Fatalf("round %d got %+v", i, e)
				}
				break
			}
			stop()
			stop() // harmless
			publish(t, c, k.together("ch"), sharded, "after stop")
			publish(t, c, k.together("marker"), sharded, "marker")
			for next(t, marker).lost {
			}
			if len(events) > 0 {
				t.Fatalf("got %+v after stop", <-events)
			}
		}
	})

	t.Run("stop from a call", func(t *testing.T) {
		c, k := open(t), newKeys()
		sub, ok := c.(redoubt.Subscriber)
		if !ok {
			t.Skip("the Conn is no Subscriber")
		}
		// Each stops the other: only one of them may get the message.
		var stops [2]func()
		ready, called := make(chan struct{}), make(chan int, 10)
		for i := range stops {
			stop, err := sub.Subscribe(bounded(t), k.together("ch"), sharded, func(_ string, lost bool) {
				if !lost {
					<-ready
					stops[1-i]()
					called <- i
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
			stops[i] = stop
		}
		marker, _ := listen(t, c, k.together("marker"), sharded)
		close(ready)
		publish(t, c, k.together("ch"), sharded, "x")
		first := <-called
		publish(t, c, k.together("ch"), sharded, "x")
		if again := <-called; again != first {
			t.Error("a stopped subscription was called")
		}
		publish(t, c, k.together("marker"), sharded, "marker")
		for next(t, marker).lost {
		}
		if len(called) > 0 {
			t.Errorf("%d more calls than messages", len(called))
		}
	})

	t.Run("ended context", func(t *testing.T) {
		c := open(t)
		sub, ok := c.(redoubt.Subscriber)
		if !ok {
			t.Skip("the Conn is no Subscriber")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := sub.Subscribe(ctx, newKeys().together("ch"), sharded, func(string, bool) {}); err == nil {
			t.Error("no error")
		}
	})
}
