package valkeyconn_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
	"github.com/redoubt-go/redoubt/valkeyconn"
)

var incr = redoubt.Cmd{Name: "INCR", Keys: []string{"n"}}

func TestWrapRefusesNil(t *testing.T) {
	if c, err := valkeyconn.Wrap(nil); !errors.Is(err, valkeyconn.ErrUnsupportedClient) || c != nil {
		t.Errorf("got %v, %v", c, err)
	}
}

// TestUnsendable: valkey-go panics when it builds these.
func TestUnsendable(t *testing.T) {
	c := wrap(t, valkey.ClientOption{InitAddress: []string{redistest.Start(t).Addr()}})
	for _, name := range []string{"", "SUBSCRIBE", "pSubscribe"} {
		if r := c.Do(t.Context(), redoubt.Cmd{Name: name, Args: []string{"x"}}); r.Err == nil || errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
			t.Errorf("%q: got %#v", name, r)
		}
	}
	rs := c.Pipeline(t.Context(), []redoubt.Cmd{{Name: "MGET", Keys: []string{"a", "b"}}, {}, incr})
	if rs[0].Err != nil || rs[1].Err == nil || rs[2].Val != any(int64(1)) {
		t.Errorf("got %#v", rs)
	}
}

// TestClosedClient: calls end with the error of valkey-go, and so do subscriptions.
func TestClosedClient(t *testing.T) {
	client := dial(t, valkey.ClientOption{InitAddress: []string{redistest.Start(t).Addr()}})
	c, err := valkeyconn.Wrap(client)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Do(t.Context(), incr); r.Err != nil {
		t.Fatal(r.Err)
	}
	client.Close()
	blocking := redoubt.Cmd{Name: "BLPOP", Keys: []string{"q"}, Args: []string{"0"}, Flags: redoubt.Blocking}
	for _, r := range append(c.Pipeline(t.Context(), []redoubt.Cmd{incr, incr}), c.Do(t.Context(), incr), c.Do(t.Context(), blocking)) {
		if !errors.Is(r.Err, valkey.ErrClosing) || errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
			t.Errorf("got %#v: %v", r, r.Err)
		}
	}
	if _, err := c.Subscribe(t.Context(), "ch", false, func(string, bool) {}); !errors.Is(err, valkey.ErrClosing) {
		t.Errorf("a subscription: %v", err)
	}
}

// hidden is a client whose connections don't see the context of a call, as a careless wrapper makes it.
type hidden struct{ valkey.Client }

func (h hidden) Do(ctx context.Context, cmd valkey.Completed) valkey.ValkeyResult {
	return h.Client.Do(context.WithoutCancel(ctx), cmd)
}

// TestClientThatHidesContexts: the Conn can't know what was sent.
//
// Promise: With a client that hides contexts, each failed command counts as sent.
func TestClientThatHidesContexts(t *testing.T) {
	s := redistest.Start(t)
	network := faultnet.New(t, s.Addr())
	client := dial(t, valkey.ClientOption{InitAddress: []string{network.Addr()}})
	c, err := valkeyconn.Wrap(hidden{client})
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Do(t.Context(), incr); r.Val != any(int64(1)) {
		t.Fatalf("got %#v", r)
	}
	network.SwallowNextReply("INCR")
	if r := c.Do(t.Context(), incr); !errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
		t.Errorf("got %#v: %v", r, r.Err)
	}
	if n := s.CLI("GET", "n"); n != "2" {
		t.Errorf("it ran %s times, want twice", n)
	}
}

// disconnect leaves c without a connection, and lets it open none.
func disconnect(t *testing.T, c redoubt.Conn, network *faultnet.Proxy) {
	t.Helper()
	network.Refuse()
	network.Cut()
	await.Soon(t, "valkey-go meets a closed port", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		oe, ok := errors.AsType[*net.OpError](c.Do(ctx, redoubt.Cmd{Name: "PING"}).Err)
		return ok && oe.Op == "dial"
	})
}

// TestServerThatDropsConnections: the server closes a connection while valkey-go opens it.
//
// Promise: A command that found no connection waits for one, and then runs once.
func TestServerThatDropsConnections(t *testing.T) {
	s := redistest.Start(t)
	network := faultnet.New(t, s.Addr())
	c := wrap(t, valkey.ClientOption{InitAddress: []string{network.Addr()}, DisableCache: true})
	if r := c.Do(t.Context(), incr); r.Err != nil {
		t.Fatal(r.Err)
	}
	disconnect(t, c, network)
	network.SwallowNextReply("HELLO")
	network.Accept()
	if r := c.Do(t.Context(), incr); r.Val != any(int64(2)) {
		t.Errorf("got %#v: %v", r, r.Err)
	}
}

// TestLeftBeforeConnected: valkey-go opens a connection while the caller leaves.
//
// Promise: A command whose caller left before it was sent has a known outcome, and is never sent.
func TestLeftBeforeConnected(t *testing.T) {
	s := redistest.Start(t)
	network := faultnet.New(t, s.Addr())
	c := wrap(t, valkey.ClientOption{InitAddress: []string{network.Addr()}})
	disconnect(t, c, network)
	network.Blackhole(faultnet.Both)
	network.Accept()
	opened := network.Stats().Accepted
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan redoubt.Reply, 1)
	go func() { got <- c.Do(ctx, redoubt.Cmd{Name: "INCR", Keys: []string{"left"}, Flags: redoubt.Idempotent}) }()
	await.Soon(t, "valkey-go opens a connection", func() bool { return network.Stats().Accepted > opened })
	cancel()
	if r := <-got; !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
		t.Errorf("got %#v: %v", r, r.Err)
	}
	network.Heal()
	if r := c.Do(t.Context(), incr); r.Err != nil {
		t.Error(r.Err)
	}
	if n := s.CLI("EXISTS", "left"); n != "0" {
		t.Error("the command ran")
	}
}

// TestNoLeaks: everything that callers leave behind ends by itself.
func TestNoLeaks(t *testing.T) {
	s := redistest.Start(t)
	network := faultnet.New(t, s.Addr())
	before := goleak.IgnoreCurrent()
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{network.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := valkeyconn.Wrap(client)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := c.Subscribe(t.Context(), "ch", false, func(string, bool) {})
	if err != nil {
		t.Fatal(err)
	}
	network.Blackhole(faultnet.Both)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			var r redoubt.Reply
			switch i % 3 {
			case 0:
				r = c.Do(ctx, incr)
			case 1:
				r = c.Pipeline(ctx, []redoubt.Cmd{incr, incr})[1]
			case 2:
				r = c.Do(ctx, redoubt.Cmd{Name: "BLPOP", Keys: []string{"q"}, Args: []string{"0"}, Flags: redoubt.Blocking})
			}
			if !errors.Is(r.Err, context.DeadlineExceeded) {
				t.Errorf("got %#v: %v", r, r.Err)
			}
		})
	}
	wg.Wait()
	stop()
	stop()
	network.Close()
	client.Close()
	await.Soon(t, "the goroutines are gone", func() bool {
		return goleak.Find(before) == nil
	})
}

// TestSilentSubscription: a subscription whose connection has gone silent is made anew.
func TestSilentSubscription(t *testing.T) {
	slow.Test(t, "it waits 6 s for an unanswered ping")
	s := redistest.Start(t)
	network := faultnet.New(t, s.Addr())
	c := wrap(t, valkey.ClientOption{InitAddress: []string{network.Addr()}}).(*valkeyconn.Conn)
	lost := make(chan bool, 100)
	stop, err := c.Subscribe(t.Context(), "ch", false, func(_ string, l bool) { lost <- l })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	accepted := network.Stats().Accepted
	pulse := await.NewPulse(t)
	start := pulse.Now()
	network.Blackhole(faultnet.Both)
	await.Soon(t, "another connection is opened", func() bool { return network.Stats().Accepted > accepted })
	if d := pulse.Now() - start; d > 8*time.Second {
		t.Errorf("noticed after %v, want 6s", d)
	}
	network.Heal()
	if !<-lost {
		t.Error("a message before the loss was told")
	}
	s.CLI("PUBLISH", "ch", "back")
	for <-lost {
	}
}

// TestServerDown: a redoubt.Client learns through the Conn that its server is down, and that it is back.
func TestServerDown(t *testing.T) {
	for fault, steps := range map[string]struct{ begin, end func(*redistest.Server) }{
		"silent": {(*redistest.Server).Pause, (*redistest.Server).Resume},
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
	} {
		t.Run(fault, func(t *testing.T) {
			s := redistest.Start(t)
			c, err := redoubt.New(wrap(t, valkey.ClientOption{InitAddress: []string{s.Addr()}}), redoubt.Options{DownAfter: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			if err := c.Do(t.Context(), incr).Err; err != nil {
				t.Fatal(err)
			}
			steps.begin(s)
			await.Soon(t, "the server is known to be down", func() bool {
				err := c.Do(t.Context(), incr).Err
				return errors.Is(err, redoubt.ErrUnavailable) && !errors.Is(err, redoubt.ErrUnknownOutcome)
			})
			steps.end(s)
			await.Soon(t, "the server is back", func() bool { return c.Do(t.Context(), incr).Err == nil })
		})
	}
}

// TestClusterFailover: when a replica has replaced a dead primary, calls and sharded channels go there.
func TestClusterFailover(t *testing.T) {
	slow.Test(t, "a cluster takes seconds to start and to replace a primary")
	cluster := redistest.StartCluster(t, 3, 1)
	c := wrap(t, valkey.ClientOption{InitAddress: cluster.Addrs()}).(*valkeyconn.Conn)
	await.Soon(t, "the slots are known", func() bool { return c.Node("n") != "" && c.Do(t.Context(), incr).Err == nil })
	lost := make(chan bool, 100)
	stop, err := c.Subscribe(t.Context(), "n", true, func(_ string, l bool) { lost <- l })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	dead := cluster.Primary("n")
	dead.Kill()
	if !<-lost {
		t.Error("a message before the loss was told")
	}
	await.Soon(t, "calls go to the replica", func() bool { return c.Do(t.Context(), incr).Err == nil })
	await.Soon(t, "Node names it", func() bool { return c.Node("n") != dead.Addr() })
	primaries, err := c.Primaries(t.Context())
	if err != nil || len(primaries) != 3 {
		t.Errorf("%d primaries, %v", len(primaries), err)
	}
}

// TestSentinelFailover: no acknowledged command runs twice or is refused.
func TestSentinelFailover(t *testing.T) {
	primary, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica.CLI("REPLICAOF", host, port)
	inStep := func() bool { return strings.Contains(replica.CLI("INFO", "replication"), "master_link_status:up") }
	await.Soon(t, "the replica is in step", inStep)
	sentinel := redistest.StartSentinels(t, 1, []redistest.Watched{{Name: "m", Master: primary, Replicas: []*redistest.Server{replica}}})[0]
	c := wrap(t, valkey.ClientOption{InitAddress: []string{sentinel.Addr()}, Sentinel: valkey.SentinelOption{MasterSet: "m"}})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	script := redoubt.NewScript("incr", "return redis.call('INCR', KEYS[1])")
	count := func() redoubt.Reply { return c.Do(ctx, redoubt.Cmd{Script: script, Keys: []string{"n"}}) }
	if r := count(); r.Val != any(int64(1)) {
		t.Fatalf("got %#v", r)
	}
	if got := primary.CLI("GET", "n"); got != "1" {
		t.Fatalf("the primary counted %q", got)
	}
	sentinel.CLI("SENTINEL", "FAILOVER", "m")
	await.Soon(t, "the replica counts", func() bool {
		if r := count(); r.Err != nil && !errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
			t.Fatalf("during the failover: %v", r.Err)
		}
		return strings.Contains(replica.CLI("INFO", "replication"), "role:master") && replica.CLI("GET", "n") != "1"
	})
	if r := count(); r.Err != nil {
		t.Errorf("after the failover: %v", r.Err)
	}
}

// TestShapesOfRESP3: replies that RESP3 shapes in another way arrive as RESP2 has them.
func TestShapesOfRESP3(t *testing.T) {
	c := wrap(t, valkey.ClientOption{InitAddress: []string{redistest.Start(t).Addr()}})
	for _, name := range []string{"one", "two"} {
		if r := c.Do(t.Context(), redoubt.Cmd{Name: "XADD", Keys: []string{name}, Args: []string{"1-0", "f", "v"}}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	got := c.Do(t.Context(), redoubt.Cmd{Name: "XREAD", Args: []string{"COUNT", "9", "STREAMS", "two", "one", "0", "0"}})
	entries := []any{[]any{"1-0", []any{"f", "v"}}}
	if want := []any{[]any{"two", entries}, []any{"one", entries}}; fmt.Sprint(got.Val) != fmt.Sprint(want) {
		t.Errorf("XREAD: got %#v", got)
	}
	if info, err := c.Do(t.Context(), redoubt.Cmd{Name: "INFO", Args: []string{"server"}}).Text(); err != nil || !strings.HasPrefix(info, "# Server") {
		t.Errorf("INFO: got %q, %v", info, err)
	}
}

// TestNodeNamesTheOwner: the Conn computes the slots of keys as the specification does.
func TestNodeNamesTheOwner(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	c := wrap(t, valkey.ClientOption{InitAddress: cluster.Addrs()}).(*valkeyconn.Conn)
	await.Soon(t, "the slots are known", func() bool { return c.Node("") != "" })
	for _, key := range []string{"", "a", "b", "c", "{a}b", "{}a", "a{b}c{d}", "a{{b}}", "{", "}{a}", "\x00\xff"} {
		if got, want := c.Node(key), cluster.Primary(key).Addr(); got != want {
			t.Errorf("%q, of slot %d, is on %s, want %s", key, keyslot.Of([]byte(key)), got, want)
		}
	}
}

// TestNoOtherClientIsLinked: a program that uses package lock with valkey-go works, and builds no go-redis.
//
// Promise: A program that uses lock with valkeyconn links no go-redis.
func TestNoOtherClientIsLinked(t *testing.T) {
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", cmd, err)
		}
		return string(out)
	}
	run("go", "run", "./testdata/locks", redistest.Start(t).Addr())
	deps := strings.Fields(run("go", "list", "-deps", "./testdata/locks"))
	for _, want := range []string{"github.com/valkey-io/valkey-go", "github.com/redoubt-go/redoubt/lock"} {
		if !slices.Contains(deps, want) {
			t.Errorf("the program doesn't use %s: the test tests nothing", want)
		}
	}
	for _, d := range deps {
		if strings.HasPrefix(d, "github.com/redis/go-redis") {
			t.Errorf("the program builds %s", d)
		}
	}
}
