package goredis_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/goredis"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

var eventually = await.Soon

// promptly is less than the time-outs of the clients of tests that end a context. It is
// compared with a pulse, which stands still while the machine does.
const promptly = time.Second

func TestWrapRefuses(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer func() { _ = ring.Close() }()
	ring.SetAddrs(map[string]string{"a": "127.0.0.1:2"})
	empty := redis.NewRing(&redis.RingOptions{})
	defer func() { _ = empty.Close() }()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	auto, err := rdb.AutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]redis.UniversalClient{
		"Ring, other shards": ring,
		"Ring, no shards":    empty,
		"nil Ring":           (*redis.Ring)(nil),
		"AutoPipeliner":      auto,
		"nil":                nil,
		"nil Client":         (*redis.Client)(nil),
		"nil ClusterClient":  (*redis.ClusterClient)(nil),
		"another type":       struct{ *redis.Client }{rdb},
	} {
		if _, err := goredis.Wrap(c); !errors.Is(err, goredis.ErrUnsupportedClient) {
			t.Errorf("%s: error %v, want ErrUnsupportedClient", name, err)
		}
	}
}

func TestWrapLeavesTheClientOpen(t *testing.T) {
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	c := wrapped(t, rdb)
	if r := c.Do(t.Context(), redoubt.Cmd{Name: "PING"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	client, err := redoubt.New(c, redoubt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the user's client: %v", err)
	}
	if err := rdb.Close(); err != nil {
		t.Error(err)
	}
	for _, ctx := range []context.Context{t.Context(), context.Background()} {
		if r := c.Do(ctx, redoubt.Cmd{Name: "PING"}); !errors.Is(r.Err, redis.ErrClosed) { // else it tries for ever
			t.Errorf("after its owner closed the client: got %#v", r)
		}
	}
}

func TestClosedCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	c := wrapped(t, rdb)
	cmd := redoubt.Cmd{Name: "INCR", Keys: []string{"k"}}
	if r := c.Do(t.Context(), cmd); r.Err != nil {
		t.Fatal(r.Err)
	}
	if err := rdb.Close(); err != nil {
		t.Fatal(err)
	}
	if r := c.Do(t.Context(), cmd); !errors.Is(r.Err, redis.ErrClosed) {
		t.Errorf("got %#v, want redis.ErrClosed", r)
	}
}

func TestOpenNothingThere(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := l.Addr().String() // accepts, says nothing
	defer l.Close()
	refused := func() string {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}()
	pulse := await.NewPulse(t)
	for _, step := range []struct{ url, addr string }{
		{"redis://:secret@" + refused, refused},
		{"redis://:secret@" + silent, silent},
		{"redis-cluster://:secret@" + refused, refused},
		{"redis-sentinel://:secret@" + refused + "/m?sentinel_password=secret", refused},
		{"unix://:secret@/nonexistent/redis.sock", "/nonexistent/redis.sock"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		start := pulse.Now()
		c, err := goredis.Open(ctx, step.url)
		cancel()
		if err == nil {
			t.Errorf("%s: no error", step.url)
			_ = c.Close()
			continue
		}
		if strings.Contains(err.Error(), "secret") || !errors.Is(err, goredis.ErrNotConnected) || !strings.HasPrefix(err.Error(), goredis.ErrNotConnected.Error()+" to ") || !strings.Contains(err.Error(), step.addr) {
			t.Errorf("%s: error %q", step.url, err)
		}
		if d := pulse.Now() - start; d > promptly {
			t.Errorf("%s: took %v, want 300ms", step.url, d)
		}
	}
}

func TestOpenWrongPassword(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "right")
	_, err := goredis.Open(t.Context(), "redis://:secret@"+s.Addr())
	if err == nil || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
	if !errors.Is(err, goredis.ErrNotConnected) {
		t.Errorf("%v does not match ErrNotConnected", err)
	}
	c := dial(t, "redis://:right@"+s.Addr()+"/2")
	if r := c.Do(t.Context(), redoubt.Cmd{Name: "SET", Keys: []string{"k"}, Args: []string{"v"}}); r.Err != nil {
		t.Error(r.Err)
	}
	if got := c.Redis().(*redis.Client).Options().DB; got != 2 {
		t.Errorf("database %d, want 2", got)
	}
}

// TestOpenFindsTheCluster: users give one node of a cluster.
func TestOpenFindsTheCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	node := cluster.Addrs()[0]
	if _, ok := dial(t, "redis://"+node).Redis().(*redis.ClusterClient); !ok {
		t.Error("one node did not lead to its cluster")
	}
	if _, ok := dial(t, "redis-cluster://"+strings.Join(cluster.Addrs(), ",")).Redis().(*redis.ClusterClient); !ok {
		t.Error("redis-cluster:// did not open a cluster")
	}
	if _, ok := dial(t, "redis://"+node+"?cluster=false").Redis().(*redis.Client); !ok {
		t.Error("cluster=false did not keep to the node")
	}
	if _, err := goredis.Open(t.Context(), "redis://"+node+"/1?cluster=false"); err == nil {
		t.Error("database 1 of a cluster: no error")
	}
}

// TestBlockingOutlivesReadTimeout: a blocking command is not cut by the wrapped
// client's read time-out, and takes no turn of its pool.
func TestBlockingOutlivesReadTimeout(t *testing.T) {
	s := redistest.Start(t)
	c := wrap(t, &redis.Options{Addr: s.Addr(), ReadTimeout: 50 * time.Millisecond, PoolSize: 1, PipelinePoolSize: -1})
	const waiting = 5
	got := make(chan redoubt.Reply, waiting)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for i := range waiting {
		go func() {
			got <- c.Do(ctx, redoubt.Cmd{Name: "BLPOP", Keys: []string{"q" + strconv.Itoa(i)}, Args: []string{"0"}, Flags: redoubt.Blocking})
		}()
	}
	blocked := func(n int) func() bool {
		return func() bool {
			info, err := c.Do(ctx, redoubt.Cmd{Name: "INFO", Args: []string{"clients"}, Flags: redoubt.ReadOnly}).Text()
			return err == nil && strings.Contains(info, "blocked_clients:"+strconv.Itoa(n)+"\r\n")
		}
	}
	eventually(t, "all block", blocked(waiting))
	select {
	case r := <-got:
		t.Fatalf("got %#v", r)
	case <-time.After(150 * time.Millisecond): // three read time-outs
	}
	for i := range waiting {
		s.CLI("RPUSH", "q"+strconv.Itoa(i), "x") // not by c, whose time-out is short for a busy machine
	}
	for range waiting {
		if r := <-got; r.Err != nil {
			t.Error(r.Err)
		}
	}

	// The server stops serving a caller that has left: what is pushed then
	// stays.
	left, leave := context.WithCancel(ctx)
	go func() {
		got <- c.Do(left, redoubt.Cmd{Name: "BLPOP", Keys: []string{"q"}, Args: []string{"0"}, Flags: redoubt.Blocking})
	}()
	eventually(t, "it blocks", blocked(1))
	leave()
	if r := <-got; !errors.Is(r.Err, context.Canceled) {
		t.Errorf("got %#v", r)
	}
	eventually(t, "none blocks", blocked(0))
	if n := s.CLI("RPUSH", "q", "x"); n != "1" {
		t.Errorf("pushed to a list of %s", n)
	}
	if n := s.CLI("LLEN", "q"); n != "1" {
		t.Errorf("the list has %s: a caller that had left took from it", n)
	}
}

// A deadlineOnly context names a deadline and never ends by itself, like that of
// a Client's merged pipelines.
type deadlineOnly struct {
	context.Context //nolint:containedctx // this is a context
	at              time.Time
}

func (c deadlineOnly) Deadline() (time.Time, bool) { return c.at, true }

func TestDeadlineBoundsResending(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close() // refuses from now on
	c := wrap(t, &redis.Options{Addr: addr, DialerRetries: 1})
	pulse := await.NewPulse(t)
	start := pulse.Now()
	ctx := deadlineOnly{context.Background(), time.Now().Add(100 * time.Millisecond)}
	r := c.Do(ctx, redoubt.Cmd{Name: "INCR", Keys: []string{"k"}})
	if !errors.Is(r.Err, context.DeadlineExceeded) || errors.Is(r.Err, redoubt.ErrUnknownOutcome) {
		t.Errorf("error %v, want the deadline and a known outcome", r.Err)
	}
	if d := pulse.Now() - start; d > promptly {
		t.Errorf("took %v, want 100ms", d)
	}
}

// TestReadOnlyConnectionIsReplaced: an address that leads to another server
// after a failover is dialled anew.
func TestReadOnlyConnectionIsReplaced(t *testing.T) {
	old, next := redistest.Start(t), redistest.Start(t)
	addr := make(chan string, 1)
	addr <- old.Addr()
	rdb := redis.NewClient(&redis.Options{
		Addr: "a.name.that.moves:6379",
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			to := <-addr
			addr <- to
			return new(net.Dialer).DialContext(ctx, network, to)
		},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	c := wrapped(t, rdb)
	incr := redoubt.Cmd{Name: "INCR", Keys: []string{"k"}}
	if r := c.Do(t.Context(), incr); r.Err != nil {
		t.Fatal(r.Err)
	}
	host, port, _ := strings.Cut(next.Addr(), ":")
	old.CLI("REPLICAOF", host, port)
	<-addr
	addr <- next.Addr()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, r := range append(c.Pipeline(ctx, []redoubt.Cmd{incr, incr}), c.Do(ctx, incr)) {
		if r.Err != nil {
			t.Error(r.Err)
		}
	}
	if got := next.CLI("GET", "k"); got != "3" {
		t.Errorf("the new primary counted %q, want 3", got)
	}
}

func isUnknown(err error) bool { return errors.Is(err, redoubt.ErrUnknownOutcome) }

// A cluster that is silent from the start does not keep a Client's call longer
// than its ctx.
func TestColdClusterKeepsTheDeadline(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{l.Addr().String()}, ReadTimeout: 3 * time.Second, MaxRetries: -1})
	defer rdb.Close()
	client, err := redoubt.New(wrapped(t, rdb), redoubt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	pulse := await.NewPulse(t)
	start := pulse.Now()
	r := client.Do(ctx, redoubt.Cmd{Name: "GET", Keys: []string{"k"}, Flags: redoubt.ReadOnly})
	if d := pulse.Now() - start; d > promptly || !errors.Is(r.Err, context.DeadlineExceeded) {
		t.Errorf("error %v after %v", r.Err, d)
	}
}
