package memcached

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
)

// others returns the options of w's pool with its servers in the places of others.
func (w *env) others(servers ...*memcachedtest.Server) Options {
	opts := w.opts
	opts.Servers = nil
	for i, s := range servers {
		opts.Servers = append(opts.Servers, Server{Server: ring.Server{Name: fmt.Sprintf("s%d", i), Weight: 1}, Addr: s.Addr()})
	}
	return opts
}

// change gives w's pool other servers, and retires those before.
func (w *env) change(t *testing.T, opts Options) {
	t.Helper()
	retire, err := w.Change(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	retire(ctx)
	if err := ctx.Err(); err != nil {
		t.Errorf("retired when time was over: %v", err)
	}
}

// TestChange: connected clients find their keys on the new servers, and the connections to the old ones
// close. Wrong options change nothing.
//
// Promise: Pool.Change replaces the servers under connected clients, and no command overtakes
// another of its client meanwhile.
func TestChange(t *testing.T) {
	w := newEnv(t, 2, nil)
	u, idle := dial(t, w.addr), dial(t, w.addr)
	before, digest := w.group.Load(), w.Digest()
	of := w.keysOf(1)
	for _, u := range []*user{u, idle} {
		u.send("set %s 0 0 5\r\nfirst\r\n", of[0][0])
		u.want("STORED")
	}
	if _, err := w.Change(Options{}); err == nil || w.group.Load() != before {
		t.Errorf("no servers: %v", err)
	}
	third := memcachedtest.Start(t)
	w.change(t, w.others(third, w.servers[1])) // s0 is another
	if got := u.ask("get %s", of[0][0]); got != "END" {
		t.Errorf("a key that s0 had: %q", got)
	}
	if w.Digest() != digest {
		t.Error("the names are the same, the ring is not")
	}
	for _, n := range before.nodes {
		if n.conn.Load() != nil {
			t.Errorf("%s is still connected", n.server.Name)
		}
	}
	if got := idle.ask("delete %s", of[0][0]); got != "NOT_FOUND" {
		t.Errorf("who was idle is answered %q", got)
	}
	if s := w.Stats(); s.Clients != 2 || s.Accepted != 2 || len(s.Servers) != 2 {
		t.Errorf("%+v", s)
	}
}

// TestChangeOrder: while the connections to a server are made anew over and over, each
// client sees its own writes, and no command fails.
//
// Promise: Pool.Change replaces the servers under connected clients, and no command overtakes
// another of its client meanwhile.
func TestChangeOrder(t *testing.T) {
	w := newEnv(t, 2, nil)
	var stop atomic.Bool
	var rounds atomic.Int64
	var clients sync.WaitGroup
	for c := range 8 {
		u := dial(t, w.addr)
		clients.Go(func() {
			for i := 0; !stop.Load(); i++ {
				// In two pieces: the second may meet other servers.
				fmt.Fprintf(u.conn, "set k%d 0 0 10 noreply\r\n%010d\r\n", c, i) //nolint:errcheck // read below
				fmt.Fprintf(u.conn, "get k%d\r\n", c)                            //nolint:errcheck // read below
				for _, want := range []string{fmt.Sprintf("VALUE k%d 0 10", c), fmt.Sprintf("%010d", i), "END"} {
					if l, err := u.r.ReadString('\n'); err != nil || l != want+"\r\n" {
						t.Errorf("client %d, round %d: %q, %v; want %q", c, i, l, err, want)
						return
					}
				}
				rounds.Add(1)
			}
		})
	}
	for range 30 {
		n := rounds.Load()
		w.change(t, w.others(w.servers...))
		await.Until(t, within, "more rounds", func() bool { return rounds.Load() > n+50 || t.Failed() })
	}
	stop.Store(true)
	clients.Wait()
	t.Logf("%d rounds", rounds.Load())
}

// TestRetire: servers that have to answer are kept until they have, or until ctx ends;
// what was asked after the change waits, so that it does not overtake.
//
// Promise: Pool.Change replaces the servers under connected clients, and no command overtakes
// another of its client meanwhile.
func TestRetire(t *testing.T) {
	w := newEnv(t, 1, func(o *Options) { o.Timeout = -1 })
	u := dial(t, w.addr)
	u.send("set a 0 0 1\r\nx\r\n")
	u.want("STORED")
	second := memcachedtest.Start(t)
	w.servers[0].Pause()
	u.send("get a\r\n")
	await.Until(t, within, "one", func() bool { return w.Stats().Servers[0].InFlight == 1 })
	retire, err := w.Change(w.others(second))
	if err != nil {
		t.Fatal(err)
	}
	u.send("get a\r\n")
	retired := make(chan struct{})
	go func() { retire(t.Context()); close(retired) }()
	await.Always(t, 3*retireInterval, "it is needed", func() bool {
		select {
		case <-retired:
			return false
		default:
			return w.Stats().Servers[0].Sent == 0
		}
	})
	w.servers[0].Resume()
	for _, want := range []string{"VALUE a 0 1", "x", "END", "END"} {
		u.want(want)
	}
	<-retired

	second.Pause()
	u.send("get a\r\n")
	await.Until(t, within, "one", func() bool { return w.Stats().Servers[0].InFlight == 1 })
	if retire, err = w.Change(w.others(w.servers[0])); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), retireInterval)
	defer cancel()
	retire(ctx)
	u.want("SERVER_ERROR redoubt: connection to server s0 lost before the reply: the command may have run")
	if got := u.ask("get a"); got != "VALUE a 0 1" {
		t.Errorf("after it: %q", got)
	}
}

// TestRetireUsed: servers are kept while a client may be about to send to them.
//
// Promise: Pool.Change replaces the servers under connected clients, and no command overtakes
// another of its client meanwhile.
func TestRetireUsed(t *testing.T) {
	w := newEnv(t, 1, func(o *Options) { o.MaxInFlight = 1 })
	old := w.group.Load()
	using := func() (c *client) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for c = range w.clients {
			if c.using.Load() == old {
				return c
			}
		}
		return nil
	}
	u := dial(t, w.addr)
	w.servers[0].Pause()
	u.send("get a\r\nget a\r\n") // the second waits for the first
	await.Until(t, within, "a client that sends", func() bool { return using() != nil })
	c := using()
	w.servers[0].Resume()
	u.want("END")
	u.want("END")
	await.Until(t, within, "a client that has sent", func() bool { return using() == nil })
	c.using.Store(old)
	retire, err := w.Change(w.others(w.servers...))
	if err != nil {
		t.Fatal(err)
	}
	retired := make(chan struct{})
	go func() { retire(t.Context()); close(retired) }()
	await.Always(t, 3*retireInterval, "it is used", func() bool { return old.nodes[0].conn.Load() != nil })
	c.using.Store(nil)
	<-retired
}

// A failing listener is one of a process that has too many files.
type failing struct {
	calls atomic.Int64
	once  sync.Once
	end   chan struct{}
}

func (l *failing) Accept() (net.Conn, error) {
	select {
	case <-l.end:
		return nil, net.ErrClosed
	default:
		l.calls.Add(1)
		return nil, errors.New("too many open files")
	}
}

func (l *failing) Close() error   { l.once.Do(func() { close(l.end) }); return nil }
func (l *failing) Addr() net.Addr { return &net.TCPAddr{} }

// TestAcceptFails: Serve tries again, ever more rarely, and ends at once when it may.
func TestAcceptFails(t *testing.T) {
	away := filepath.Join(t.TempDir(), "none")
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Options{Servers: []Server{{Server: ring.Server{Name: "s", Weight: 1}, Network: "unix", Addr: away}}})
		if err != nil {
			t.Fatal(err)
		}
		l := &failing{end: make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- p.Serve(l) }()
		await.Advance(10*time.Second + 300*time.Millisecond)
		if n := l.calls.Load(); n < 10 || n > 20 {
			t.Errorf("%d attempts in 10 s", n)
		}
		before := time.Now()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve returned %v", err)
		}
		if d := time.Since(before); d > 0 {
			t.Errorf("Close waited %v for it", d)
		}
	})
}
