package proxy_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// A collector is a ReplyHandler that keeps the replies by tag.
type collector struct {
	mu      sync.Mutex
	replies map[uint64]string
	pushes  []string
	flushes int
	changed chan struct{}
	gone    chan error
}

func newCollector() *collector {
	return &collector{replies: make(map[uint64]string), changed: make(chan struct{}, 1), gone: make(chan error, 1)}
}

func (c *collector) notify() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *collector) Reply(tag uint64, raw []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.replies[tag]; ok {
		c.replies[tag] = old + " AND " + string(raw)
		return true
	}
	c.replies[tag] = string(raw)
	c.notify()
	return true
}

func (c *collector) Push(raw []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pushes = append(c.pushes, string(raw))
	c.notify()
	return true
}

func (c *collector) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushes++
}

func (c *collector) Gone(err error) { c.gone <- err }

// wait waits until ok, called with the replies and pushes so far.
func (c *collector) wait(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		done := ok()
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-c.changed:
		case <-deadline:
			c.mu.Lock()
			defer c.mu.Unlock()
			tb.Fatalf("not in time: %s; replies %v, pushes %q", what, c.replies, c.pushes)
		}
	}
}

func (c *collector) want(tb testing.TB, tag uint64, reply string) {
	tb.Helper()
	var got string
	c.wait(tb, "reply "+strconv.FormatUint(tag, 10), func() bool {
		got = c.replies[tag]
		return got != ""
	})
	if got != reply {
		tb.Errorf("reply %d: %q, want %q", tag, got, reply)
	}
}

func backend(tb testing.TB, url string) *proxy.Redis {
	tb.Helper()
	b, err := proxy.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func upstream(tb testing.TB, o proxy.Options) *proxy.Upstream {
	tb.Helper()
	u, err := proxy.NewUpstream(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = u.Close() })
	return u
}

var answer = redoubt.NewScript("answer", "return ARGV[1]")

// Promise: Each reply carries the tag that its ReplyHandler chose.
func TestUpstream(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		u := upstream(t, proxy.Options{Backend: backend(t, b.URL), Scripts: []*redoubt.Script{answer}})
		if err := u.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			c := newCollector()
			wg.Go(func() {
				for tag := uint64(0); tag < 300; tag += 3 {
					two := resp.AppendCommand(resp.AppendCommand(nil, "ECHO", strconv.FormatUint(tag, 10)), "ECHO", strconv.FormatUint(tag+1, 10))
					if err := u.Send(c, tag, 2, two); err != nil {
						t.Error(err)
						return
					}
					cmd := &redoubt.Cmd{Script: answer, Args: []string{strconv.FormatUint(tag+2, 10)}}
					if err := u.SendScript(c, tag+2, cmd); err != nil {
						t.Error(err)
						return
					}
					u.Flush()
				}
			})
			t.Cleanup(func() {
				// It comes after the replies.
				await.Until(t, 10*time.Second, "Flush is called", func() bool {
					c.mu.Lock()
					defer c.mu.Unlock()
					return c.flushes > 0
				})
			})
			wg.Go(func() {
				deadline := time.After(patience)
				for {
					c.mu.Lock()
					n := len(c.replies)
					c.mu.Unlock()
					if n == 300 {
						break
					}
					select {
					case <-c.changed:
					case <-deadline:
						t.Errorf("%d replies, want 300", n)
						return
					}
				}
				for tag, got := range c.replies {
					if want := string(resp.AppendBulk(nil, strconv.FormatUint(tag, 10))); got != want {
						t.Errorf("reply %d: %q, want %q", tag, got, want)
					}
				}
			})
		}
		wg.Wait()
	})
}

// A script that was forgotten is sent again, once, in its caller's name.
//
// Promise: A script that the server doesn't know is sent again.
func TestMissingScript(t *testing.T) {
	s := redistest.Start(t)
	u := upstream(t, proxy.Options{Backend: backend(t, s.URL())})
	c := newCollector()
	for tag := range uint64(10) {
		if err := u.Send(c, 100+tag, 1, resp.AppendCommand(nil, "SCRIPT", "FLUSH")); err != nil {
			t.Fatal(err)
		}
		if err := u.SendScript(c, tag, &redoubt.Cmd{Script: answer, Args: []string{"x"}}); err != nil {
			t.Fatal(err)
		}
	}
	u.Flush()
	for tag := range uint64(10) {
		c.want(t, tag, "$1\r\nx\r\n")
		c.want(t, 100+tag, "+OK\r\n")
	}
	if st := u.Stats(); st.Losses != 0 || st.Connects != 1 || !st.Up {
		t.Errorf("%+v", st)
	}
}

// TestLostConnection: a sent command may have run, and an unsent one has not. The errors say so.
//
// Promise: When the connection is lost, every command in flight gets one error, which says whether
// the command may have run.
//
// Promise: While there is no connection, Upstream.Send fails and does not wait for one.
func TestLostConnection(t *testing.T) {
	s := redistest.Start(t)
	u := upstream(t, proxy.Options{Backend: backend(t, s.URL())})
	if err := u.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newCollector()
	s.Pause()
	if err := u.Send(c, 0, 2, resp.AppendCommand(resp.AppendCommand(nil, "INCR", "n"), "INCR", "n")); err != nil {
		t.Fatal(err)
	}
	u.Flush()
	if err := u.Send(c, 2, 1, resp.AppendCommand(nil, "INCR", "n")); err != nil { // not flushed
		t.Fatal(err)
	}
	s.Kill()
	c.want(t, 0, string(proxy.Lost(s.Addr()).Reply()))
	c.want(t, 1, string(proxy.Lost(s.Addr()).Reply()))
	c.want(t, 2, string(proxy.Unsent(s.Addr()).Reply()))
	// The port of a process that is ending may still accept for a moment.
	tag := uint64(3)
	until := func(what string, ok func(err error) bool) {
		t.Helper()
		deadline := time.After(patience)
		for {
			tag++
			err := u.Send(c, tag, 1, resp.AppendCommand(nil, "ECHO", "back"))
			u.Flush()
			if ok(err) {
				return
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-deadline:
				t.Fatal("not in time: " + what)
			}
		}
	}
	until("Send fails", func(err error) bool { return err != nil })
	s.Restart()
	until("Send works", func(err error) bool { return err == nil })
	c.want(t, tag, "$4\r\nback\r\n")
}

// A connection breaks while the server runs commands and scripts, and while others wait to be sent. Each of them
// appends its own number to a list. The client gets none of their replies. No number is in the list twice, and the
// number of a command that was not sent is not in the list.
//
// Promise: A write whose connection was lost is never sent again.
func TestLostCommandsAreNotSentAgain(t *testing.T) {
	s := redistest.Start(t)
	net := faultnet.New(t, s.Addr())
	push := redoubt.NewScript("push", "return redis.call('RPUSH', KEYS[1], ARGV[1])")
	u := upstream(t, proxy.Options{Backend: backend(t, "redis://"+net.Addr()), Scripts: []*redoubt.Script{push}})
	const rounds, commands = 20, 30
	lost, unsent := string(proxy.Lost(net.Addr()).Reply()), string(proxy.Unsent(net.Addr()).Reply())
	outcomes := map[string]int{}
	for round := range rounds {
		if err := u.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, list := newCollector(), "list"+strconv.Itoa(round)
		for tag := range uint64(commands) {
			if tag == commands/2 {
				u.Flush() // the rest waits behind what is on its way
			}
			number := strconv.FormatUint(tag, 10)
			var err error
			if tag%2 == 0 {
				err = u.Send(c, tag, 1, resp.AppendCommand(nil, "RPUSH", list, number))
			} else {
				err = u.SendScript(c, tag, &redoubt.Cmd{Script: push, Keys: []string{list}, Args: []string{number}})
			}
			if err != nil {
				t.Fatal(err)
			}
			if tag == 0 {
				net.Blackhole(faultnet.ToClient)
			}
		}
		await.Soon(t, "the server has run a command", func() bool { return s.CLI("LLEN", list) != "0" })
		net.Cut()
		net.Heal()
		c.wait(t, "an outcome of each command", func() bool { return len(c.replies) == commands })
		// The server runs anything sent again on the new connection before this ECHO.
		await.Soon(t, "the new connection works", func() bool { return u.Send(c, commands, 1, resp.AppendCommand(nil, "ECHO", "x")) == nil })
		u.Flush()
		c.want(t, commands, "$1\r\nx\r\n")
		ran := map[string]int{}
		for number := range strings.FieldsSeq(s.CLI("LRANGE", list, "0", "-1")) {
			ran[number]++
		}
		for tag := range uint64(commands) {
			n, reply := ran[strconv.FormatUint(tag, 10)], c.replies[tag]
			switch {
			case reply == lost && n <= 1, reply == unsent && n == 0:
				outcomes[reply]++
			default:
				t.Errorf("round %d: command %d ran %d times, and its reply is %q", round, tag, n, reply)
			}
		}
	}
	if outcomes[lost] < rounds || outcomes[unsent] < rounds {
		t.Errorf("%d commands were lost and %d were not sent: the test shows little", outcomes[lost], outcomes[unsent])
	}
}

// Send waits while the back end takes nothing.
//
// Promise: Pending bytes are bounded: Send waits while the back end doesn't take what was sent
// before.
func TestBackpressure(t *testing.T) {
	s := redistest.Start(t)
	u := upstream(t, proxy.Options{Backend: backend(t, s.URL()), MaxPending: 1 << 20})
	if err := u.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Pause()
	c := newCollector()
	set := resp.AppendCommand(nil, "SET", "k", strings.Repeat("x", 256<<10))
	const n = 100 // 25 MiB: more than sockets hold
	// One sender stands in the system call, the other appends behind it.
	done := make(chan struct{})
	var wg sync.WaitGroup
	for i := range uint64(2) {
		wg.Go(func() {
			for tag := range uint64(n) {
				if err := u.Send(c, i*n+tag, 1, set); err != nil {
					t.Error(err)
					return
				}
				u.Flush()
			}
		})
	}
	go func() {
		defer close(done)
		wg.Wait()
	}()
	select {
	case <-done:
		t.Fatal("all was accepted while nothing was taken")
	case <-time.After(200 * time.Millisecond):
	}
	if p := u.Stats().Pending; p > 2<<20 {
		t.Errorf("%d bytes wait, want at most MaxPending", p)
	}
	s.Resume()
	<-done
	u.Flush()
	c.wait(t, "all replies", func() bool { return len(c.replies) == 2*n })
}

func TestCloseAnswers(t *testing.T) {
	s := redistest.Start(t)
	u := upstream(t, proxy.Options{Backend: backend(t, s.URL())})
	if err := u.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newCollector()
	s.Pause()
	defer s.Resume()
	if err := u.Send(c, 0, 1, resp.AppendCommand(nil, "PING")); err != nil {
		t.Fatal(err)
	}
	u.Flush()
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	if c.replies[0] != string(proxy.Lost(s.Addr()).Reply()) {
		t.Errorf("after Close: %q", c.replies[0])
	}
	if err := u.Send(c, 1, 1, resp.AppendCommand(nil, "PING")); err == nil {
		t.Error("Send after Close: no error")
	}
}

func TestDedicated(t *testing.T) {
	s := redistest.Start(t)
	for _, p := range []resp.Protocol{resp.RESP2, resp.RESP3} {
		c := newCollector()
		o := proxy.Options{Backend: backend(t, s.URL()), Protocol: p}
		d, err := proxy.OpenDedicated(t.Context(), o, c, []string{"CLIENT", "SETNAME", "mine"})
		if err != nil {
			t.Fatal(err)
		}
		send := func(tag uint64, e proxy.Expect, args ...string) {
			t.Helper()
			if err := d.SendExpecting(tag, e, resp.AppendCommand(nil, args...)); err != nil {
				t.Fatal(err)
			}
			d.Flush()
		}
		send(0, proxy.Expect{}, "CLIENT", "GETNAME")
		c.want(t, 0, "$4\r\nmine\r\n")
		send(1, proxy.Expect{Subscription: proxy.Channels, Channels: 2}, "SUBSCRIBE", "a", "b")
		c.wait(t, "two confirmations", func() bool { _, done := c.replies[1]; return done && len(c.pushes) == 2 })
		s.CLI("PUBLISH", "a", "hello")
		c.wait(t, "the message", func() bool { return len(c.pushes) == 3 && strings.Contains(c.pushes[2], "hello") })
		if p == resp.RESP3 { // an array is a reply, whatever it says
			send(10, proxy.Expect{}, "EVAL", "return {'message', 'a', 'x'}", "0")
			c.want(t, 10, "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n")
			send(11, proxy.Expect{}, "EVAL", "return {'unsubscribe', 'a', 0}", "0")
			c.want(t, 11, "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n")
		}
		send(2, proxy.Expect{Subscription: proxy.Channels}, "UNSUBSCRIBE")
		c.wait(t, "two confirmations", func() bool { _, done := c.replies[2]; return done && len(c.pushes) == 5 })
		send(3, proxy.Expect{}, "ECHO", "x")
		c.want(t, 3, "$1\r\nx\r\n")
		send(4, proxy.Expect{}, "EVAL", "return {'message', 'a', 'x'}", "0")
		c.want(t, 4, "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n")
		d.Close()
		if err := <-c.gone; err == nil {
			t.Error("Gone without a reason")
		}
		<-d.Done()
	}
	o := proxy.Options{Backend: backend(t, s.URL())}
	if _, err := proxy.OpenDedicated(t.Context(), o, newCollector(), []string{"NOSUCH"}); err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Errorf("a setup command that fails: %v", err)
	}
}

func TestBackendSession(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	host := strings.TrimPrefix(s.URL(), "redis://")
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := backend(t, "redis://:secret@"+host+"/3").Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := backend(t, "redis://:wrong@"+host).Open(ctx); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := backend(t, "redis://:secret@"+host+"/99").Open(ctx); err == nil {
		t.Error("a database that does not exist: no error")
	}
}

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		url  string
		want proxy.Redis
		tls  string
	}{
		{"redis://", proxy.Redis{Network: "tcp", Addr: "127.0.0.1:6379"}, ""},
		{"redis://h", proxy.Redis{Network: "tcp", Addr: "h:6379"}, ""},
		{"redis://u:p@h:1/2", proxy.Redis{Network: "tcp", Addr: "h:1", Username: "u", Password: "p", DB: 2}, ""},
		{"redis://:p%40@[::1]:1", proxy.Redis{Network: "tcp", Addr: "[::1]:1", Password: "p@"}, ""},
		{"rediss://h", proxy.Redis{Network: "tcp", Addr: "h:6379"}, "h"},
		{"unix:///tmp/s?db=4", proxy.Redis{Network: "unix", Addr: "/tmp/s", DB: 4}, ""},
	} {
		got, err := proxy.ParseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if (got.TLS != nil) != (c.tls != "") || got.TLS != nil && got.TLS.ServerName != c.tls {
			t.Errorf("%s: TLS %+v", c.url, got.TLS)
		}
		got.TLS = nil
		if *got != c.want {
			t.Errorf("%s: %+v, want %+v", c.url, *got, c.want)
		}
	}
	for url, want := range map[string]string{
		"http://u:hidden@h":         `proxy: URL scheme "http" is not known; want redis, rediss and unix`,
		"h:6379":                    "proxy: malformed URL: want redis://user:password@host:port/db, with special characters in the password percent-encoded",
		"redis-sentinel://h/m":      "proxy: ParseURL takes no redis-sentinel URL, but redis, rediss and unix; redoubt.Open takes it",
		"redis-cluster://:hidden@h": "proxy: ParseURL takes no redis-cluster URL, but redis, rediss and unix; redoubt.Open takes it",
		"embedded:":                 "proxy: ParseURL takes no embedded URL, but redis, rediss and unix; redoubt.Open takes it, and an engine.Engine is a back end itself",
	} {
		if _, err := proxy.ParseURL(url); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", url, err, want)
		}
	}
	for _, bad := range []string{"redis://h/x", "redis://h/-1", "unix://", "redis://u:hidden@h/x", "redis://u:hidden@h:x"} {
		_, err := proxy.ParseURL(bad)
		if err == nil {
			t.Errorf("%s: no error", bad)
		} else if strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: the password is in %v", bad, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("redis://u:p@h:1/2")
	f.Add("unix:///tmp/s?db=4")
	f.Fuzz(func(t *testing.T, url string) {
		b, err := proxy.ParseURL(url)
		if (b == nil) == (err == nil) {
			t.Errorf("%q: %v %v", url, b, err)
		}
	})
}
