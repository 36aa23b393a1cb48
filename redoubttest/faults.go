package redoubttest

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
)

// A Network is what [RunFaults] needs from a Conn that goes over one.
type Network struct {
	// Open returns a Conn, for one test, to the one server that listens at
	// addr, a host:port on loopback.
	Open func(t *testing.T, addr string) redoubt.Conn
	// Server starts a Redis server for one test and returns its address. Each
	// call starts another one.
	Server func(t *testing.T) (addr string)
	// Proxy starts a proxy to addr for one test.
	Proxy func(t *testing.T, addr string) Proxy
}

// A Proxy passes bytes between clients and a server, and spoils that on
// request.
type Proxy interface {
	// Addr is where the proxy listens.
	Addr() string
	// Blackhole holds back all bytes in both directions, on connections that
	// there are and on new ones, until Heal. No connection is closed.
	Blackhole()
	Heal()
	// Cut closes all connections.
	Cut()
	// Refuse closes all connections and lets none be made, until Accept.
	Refuse()
	Accept()
	// SwallowNextReply passes the next request on, drops the answer to it, and
	// closes the connection. Answers to requests before it pass. With names
	// only requests of these commands count; without, what clients send by
	// themselves when they connect doesn't.
	SwallowNextReply(names ...string)
}

// RunFaults runs the tests of a Conn over a network that fails.
func RunFaults(t *testing.T, n Network) {
	t.Helper()
	t.Run("LostReply", func(t *testing.T) { testLostReply(t, n) })
	t.Run("SilentServer", func(t *testing.T) { testSilentServer(t, n) })
	t.Run("NoConnection", func(t *testing.T) { testNoConnection(t, n) })
	t.Run("LostSubscription", func(t *testing.T) { testLostSubscription(t, n) })
	t.Run("Replica", func(t *testing.T) { testReplica(t, n) })
	t.Run("Refusals", func(t *testing.T) { testRefusals(t, n) })
}

// behindProxy returns a Conn through a proxy, with its connections made, and
// one that goes straight to the same server.
func behindProxy(t *testing.T, n Network) (c, direct redoubt.Conn, p Proxy) {
	t.Helper()
	addr := n.Server(t)
	p = n.Proxy(t, addr)
	c, direct = n.Open(t, p.Addr()), n.Open(t, addr)
	connect(t, c)
	return c, direct, p
}

// connect makes sure that c has a connection, and one for pipelines if it has
// others for those.
func connect(t *testing.T, c redoubt.Conn) {
	t.Helper()
	ping := redoubt.Cmd{Name: "PING", Flags: redoubt.ReadOnly}
	must(t, c.Do(bounded(t), ping))
	for _, r := range c.Pipeline(bounded(t), []redoubt.Cmd{ping, ping}) {
		must(t, r)
	}
}

// testLostReply loses the reply to one command and checks how often it ran.
func testLostReply(t *testing.T, n Network) {
	incr := script("return redis.call('INCR', KEYS[1])")
	for _, step := range []struct {
		name  string
		cmd   redoubt.Cmd
		flags redoubt.Flags
		ran   int64
	}{
		{"plain command", redoubt.Cmd{Name: "INCR"}, 0, 1},
		{"plain script", redoubt.Cmd{Script: incr}, 0, 1},
		{"idempotent command", redoubt.Cmd{Name: "INCR"}, redoubt.Idempotent, 2},
		{"idempotent script", redoubt.Cmd{Script: incr}, redoubt.Idempotent, 2},
		// INCR is no read, but it shows that the command was sent again.
		{"read-only command", redoubt.Cmd{Name: "INCR"}, redoubt.ReadOnly, 2},
	} {
		t.Run(step.name, func(t *testing.T) {
			c, direct, proxy := behindProxy(t, n)
			key := newKeys().together("n")
			must(t, direct.Do(bounded(t), redoubt.Cmd{Script: incr, Keys: []string{newKeys().together("x")}}))
			cmd := step.cmd
			cmd.Keys, cmd.Flags = []string{key}, step.flags
			proxy.SwallowNextReply()
			r := c.Do(bounded(t), cmd)
			switch {
			case step.ran == 1 && !errors.Is(r.Err, redoubt.ErrUnknownOutcome):
				t.Errorf("got %#v, want ErrUnknownOutcome", r)
			case step.ran == 2 && (r.Err != nil || r.Val != any(int64(2))):
				t.Errorf("got %#v, want the reply to the second sending, 2", r)
			}
			if got := counter(t, direct, key); got != step.ran {
				t.Errorf("ran %d times, want %d", got, step.ran)
			}
			if r := c.Do(bounded(t), redoubt.Cmd{Name: "PING"}); r.Err != nil {
				t.Errorf("afterwards: %v", r.Err)
			}
		})
	}

	// The answer to the second sending tells nothing of the first.
	t.Run("refused when sent again", func(t *testing.T) {
		c, direct, proxy := behindProxy(t, n)
		s := script("if redis.call('INCR', KEYS[1]) > 1 then return redis.error_reply('OOM not now') end return 1")
		must(t, direct.Do(bounded(t), redoubt.Cmd{Script: s, Keys: []string{newKeys().together("x")}}))
		proxy.SwallowNextReply()
		r := c.Do(bounded(t), redoubt.Cmd{Script: s, Keys: []string{newKeys().together("n")}, Flags: redoubt.Idempotent})
		if se, ok := errors.AsType[redoubt.ServerError](r.Err); !ok || se.Code() != "OOM" || !errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
			t.Errorf("got %#v, want the server's error and ErrUnknownOutcome", r)
		}
	})

	// Each command of a pipeline that broke is judged for itself. The commands behind
	// the lost reply may have run or not.
	t.Run("pipeline", func(t *testing.T) {
		c, direct, proxy := behindProxy(t, n)
		key := newKeys().together
		must(t, direct.Do(bounded(t), redoubt.Cmd{Script: incr, Keys: []string{key("x")}}))
		proxy.SwallowNextReply("EVALSHA")
		rs := c.Pipeline(bounded(t), []redoubt.Cmd{
			{Name: "INCR", Keys: []string{key("before")}},
			{Script: incr, Keys: []string{key("lost")}},
			{Script: incr, Keys: []string{key("idempotent")}, Flags: redoubt.Idempotent},
			{Name: "GET", Keys: []string{key("before")}, Flags: redoubt.ReadOnly},
			{Name: "INCR", Keys: []string{key("after")}},
		})
		if rs[0].Err != nil || rs[0].Val != any(int64(1)) {
			t.Errorf("the reply that came is %v, want 1", rs[0])
		}
		if rs[3].Err != nil || rs[3].Val != any("1") {
			t.Errorf("the read got %#v, want 1: it may be sent again", rs[3])
		}
		for _, i := range []int{1, 4} {
			if !errors.Is(rs[i].Err, redoubt.ErrUnknownOutcome) {
				t.Errorf("reply %d is %#v, want ErrUnknownOutcome", i, rs[i])
			}
		}
		if got, err := rs[2].Int(); err != nil || got < 1 || got != counter(t, direct, key("idempotent")) {
			t.Errorf("the idempotent script got %#v, want its last count", rs[2])
		}
		for part, most := range map[string][2]int64{"before": {1, 1}, "lost": {1, 1}, "idempotent": {1, 2}, "after": {0, 1}} {
			if got := counter(t, direct, key(part)); got < most[0] || got > most[1] {
				t.Errorf("%s ran %d times, want %v", part, got, most)
			}
		}
	})
}

// testSilentServer holds that a call returns when its context ends although the
// server says nothing and the connection stands.
func testSilentServer(t *testing.T, n Network) {
	c, direct, proxy := behindProxy(t, n)
	k := newKeys()
	silent := func(t *testing.T, f func(t *testing.T, ctx context.Context, end error) (sent bool)) {
		t.Helper()
		prepare := func() {
			proxy.Heal()
			connect(t, c)
			proxy.Blackhole()
		}
		leaves(t, prepare, f)
	}
	t.Run("command", func(t *testing.T) {
		silent(t, func(t *testing.T, ctx context.Context, end error) bool {
			r := c.Do(ctx, redoubt.Cmd{Name: "INCR", Keys: []string{k.together("n")}})
			if !errors.Is(r.Err, end) {
				t.Errorf("error %v, want %v", r.Err, end)
			}
			return t.Failed() || errors.Is(r.Err, redoubt.ErrUnknownOutcome)
		})
	})
	t.Run("idempotent", func(t *testing.T) {
		silent(t, func(t *testing.T, ctx context.Context, end error) bool {
			r := c.Do(ctx, redoubt.Cmd{Name: "SET", Keys: []string{k.together("s")}, Args: []string{"x"}, Flags: redoubt.Idempotent})
			if !errors.Is(r.Err, end) {
				t.Errorf("error %v, want %v", r.Err, end)
			}
			return true
		})
	})
	t.Run("read-only", func(t *testing.T) {
		silent(t, func(t *testing.T, ctx context.Context, end error) bool {
			r := c.Do(ctx, redoubt.Cmd{Name: "GET", Keys: []string{k.together("n")}, Flags: redoubt.ReadOnly})
			if !errors.Is(r.Err, end) || errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
				t.Errorf("error %v, want only %v", r.Err, end)
			}
			return true
		})
	})
	t.Run("pipeline", func(t *testing.T) {
		silent(t, func(t *testing.T, ctx context.Context, end error) bool {
			rs := c.Pipeline(ctx, []redoubt.Cmd{
				{Name: "INCR", Keys: []string{k.together("n")}},
				{Name: "GET", Keys: []string{k.together("n")}, Flags: redoubt.ReadOnly},
			})
			for i, r := range rs {
				if !errors.Is(r.Err, end) {
					t.Errorf("reply %d: error %v, want %v", i, r.Err, end)
				}
			}
			if errors.Is(rs[1].Err, redoubt.ErrUnknownOutcome) {
				t.Errorf("a read has an unknown outcome: %v", rs[1].Err)
			}
			return true
		})
	})
	t.Run("blocking", func(t *testing.T) {
		silent(t, func(t *testing.T, ctx context.Context, end error) bool {
			r := c.Do(ctx, redoubt.Cmd{Name: "BLPOP", Keys: []string{k.together("q")}, Args: []string{"0"}, Flags: redoubt.Blocking})
			if !errors.Is(r.Err, end) {
				t.Errorf("error %v, want %v", r.Err, end)
			}
			return true
		})
	})
	t.Run("subscribe", func(t *testing.T) {
		sub, ok := c.(redoubt.Subscriber)
		if !ok {
			t.Skip("the Conn is no Subscriber")
		}
		silent(t, func(t *testing.T, ctx context.Context, end error) bool {
			if _, err := sub.Subscribe(ctx, k.together("ch"), false, func(string, bool) {}); !errors.Is(err, end) {
				t.Errorf("error %v, want %v", err, end)
			}
			return true
		})
	})
	t.Run("afterwards", func(t *testing.T) {
		proxy.Heal()
		must(t, c.Do(bounded(t), redoubt.Cmd{Name: "PING", Flags: redoubt.ReadOnly}))
		must(t, direct.Do(bounded(t), redoubt.Cmd{Name: "PING"}))
	})
}

// testNoConnection holds that a command waits for a server that refuses
// connections, because it was surely not run.
func testNoConnection(t *testing.T, n Network) {
	t.Run("until it accepts", func(t *testing.T) {
		c, direct, proxy := behindProxy(t, n)
		k := newKeys()
		proxy.Refuse()
		s := script("return redis.call('INCR', KEYS[1])")
		key := []string{k.together("n")}
		got := make(chan redoubt.Reply)
		ctx := bounded(t)
		go func() {
			// The first may go out on a connection not known to be closed.
			_ = c.Do(ctx, redoubt.Cmd{Name: "PING"})
			for range 3 {
				got <- c.Do(ctx, redoubt.Cmd{Script: s, Keys: key})
			}
		}()
		select {
		case r := <-got:
			t.Fatalf("got %#v without a connection", r)
		case <-time.After(100 * time.Millisecond):
		}
		proxy.Accept()
		for want := range int64(3) {
			if v := must(t, <-got); v != any(want+1) {
				t.Errorf("got %#v, want %d", v, want+1)
			}
		}
		if got := counter(t, direct, key[0]); got != 3 {
			t.Errorf("ran %d times, want 3", got)
		}
	})

	t.Run("subscriptions", func(t *testing.T) {
		c, _, proxy := behindProxy(t, n)
		s, ok := c.(redoubt.Subscriber)
		if !ok {
			return // not every Conn has them
		}
		proxy.Refuse()
		proxy.Cut()
		got := make(chan error, 1)
		ctx, channel := bounded(t), newKeys().together("c")
		go func() {
			stop, err := s.Subscribe(ctx, channel, false, func(string, bool) {})
			if err == nil {
				stop()
			}
			got <- err
		}()
		select {
		case err := <-got:
			t.Fatalf("got error %v without a connection", err)
		case <-time.After(100 * time.Millisecond):
		}
		proxy.Accept()
		if err := <-got; err != nil {
			t.Errorf("error %v", err)
		}
	})

	t.Run("until the context ends", func(t *testing.T) {
		c, _, proxy := behindProxy(t, n)
		proxy.Refuse()
		prepare := func() { // connections that are not known to be closed
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_ = c.Do(ctx, redoubt.Cmd{Name: "PING"})
			_ = c.Pipeline(ctx, []redoubt.Cmd{{Name: "PING"}, {Name: "PING"}})
		}
		leaves(t, prepare, func(t *testing.T, ctx context.Context, end error) bool {
			cmd := redoubt.Cmd{Name: "INCR", Keys: []string{newKeys().together("n")}}
			replies := append(c.Pipeline(ctx, []redoubt.Cmd{cmd, cmd}), c.Do(ctx, cmd))
			for i, r := range replies {
				if !errors.Is(r.Err, end) || errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
					t.Errorf("call %d: error %v, want %v and a known outcome", i, r.Err, end)
				}
			}
			return true
		})
	})
}

func testLostSubscription(t *testing.T, n Network) {
	for _, sharded := range []bool{false, true} {
		name := "ordinary"
		if sharded {
			name = "sharded"
		}
		t.Run(name, func(t *testing.T) {
			c, direct, proxy := behindProxy(t, n)
			if sharded {
				needsShardedPubSub(t, direct)
			}
			k := newKeys()
			const channels = 3
			var events [channels]chan event
			var stops [channels]func()
			for i := range channels {
				events[i], stops[i] = listen(t, c, k.apart(i), sharded)
			}
			for round := range 3 {
				if round == 1 {
					proxy.Refuse()
					proxy.Accept()
				} else {
					proxy.Cut()
				}
				for i := range channels {
					for !next(t, events[i]).lost {
					}
					publish(t, direct, k.apart(i), sharded, "back")
					e := next(t, events[i])
					for e.lost { // the loss may be noticed more than once
						e = next(t, events[i])
					}
					if e.payload != "back" {
						t.Errorf("round %d, channel %d: got %+v", round, i, e)
					}
				}
			}
			stops[0]()
			proxy.Cut()
			for !next(t, events[1]).lost {
			}
			if len(events[0]) > 0 {
				t.Errorf("a stopped channel got %+v", <-events[0])
			}
		})
	}
}

// testReplica holds that a write waits for a replica to become a primary, as it
// does in a failover behind one address.
func testReplica(t *testing.T, n Network) {
	primary, replica := n.Server(t), n.Server(t)
	c := n.Open(t, replica)
	host, port, _ := strings.Cut(primary, ":")
	follow := func(args ...string) {
		must(t, c.Do(bounded(t), redoubt.Cmd{Name: "REPLICAOF", Args: args}))
	}
	s := script("return redis.call('INCR', KEYS[1])")
	k := newKeys()
	for _, step := range []struct {
		name string
		run  func(ctx context.Context) redoubt.Reply
	}{
		{"command", func(ctx context.Context) redoubt.Reply {
			return c.Do(ctx, redoubt.Cmd{Name: "INCR", Keys: []string{k.together("command")}})
		}},
		{"script", func(ctx context.Context) redoubt.Reply {
			return c.Do(ctx, redoubt.Cmd{Script: s, Keys: []string{k.together("script")}})
		}},
		{"pipeline", func(ctx context.Context) redoubt.Reply {
			return c.Pipeline(ctx, []redoubt.Cmd{{Name: "PING"}, {Name: "INCR", Keys: []string{k.together("pipeline")}}})[1]
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			follow(host, port)
			eventually(t, "the replica is in step", func() bool {
				info, err := c.Do(bounded(t), redoubt.Cmd{Name: "INFO", Args: []string{"replication"}, Flags: redoubt.ReadOnly}).Text()
				return err == nil && strings.Contains(info, "master_link_status:up")
			})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			r := step.run(ctx)
			if !errors.Is(r.Err, context.DeadlineExceeded) {
				t.Fatalf("on a replica: got %#v, want the end of the context", r)
			}
			got := make(chan redoubt.Reply, 1)
			long := bounded(t)
			go func() { got <- step.run(long) }()
			select {
			case r := <-got:
				t.Fatalf("on a replica: got %#v", r)
			case <-time.After(20 * time.Millisecond): // it has met READONLY by now, or will
			}
			follow("NO", "ONE")
			if r := <-got; r.Err != nil || !reflect.DeepEqual(r.Val, any(int64(1))) {
				t.Errorf("on the new primary: got %#v, want 1", r)
			}
		})
	}
}
