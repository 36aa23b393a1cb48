package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	_ "github.com/redoubt-go/redoubt/goredis" // for redis: URLs
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/server"
)

var must = expect.Must

func newEngine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{})
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// serve serves clients until the test ends, and returns a URL of the server.
func serve(t *testing.T, opts server.Options) (url string) {
	t.Helper()
	srv, err := server.New(t.Context(), opts)
	must(t, err)
	l, err := srv.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		must(t, srv.Close())
		if err := <-served; !errors.Is(err, server.ErrClosed) {
			t.Errorf("Serve: %v, want ErrClosed", err)
		}
		must(t, srv.Close())
	})
	return "redis://" + l.Addr().String()
}

func connect(t *testing.T, url string) *redoubt.Client {
	t.Helper()
	client, err := redoubt.Open(t.Context(), url, redoubt.Options{})
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A lock is held for everybody: the program itself, clients of the library and clients that send
// LOCK.ACQUIRE.
func TestLocksAreShared(t *testing.T) {
	e := newEngine(t)
	inside, err := redoubt.New(e, redoubt.Options{})
	must(t, err)
	t.Cleanup(func() { _ = inside.Close() })
	backend := redistest.Start(t)
	for name, door := range map[string]struct{ direct, served *redoubt.Client }{
		"engine": {inside, connect(t, serve(t, server.Options{Engine: e}))},
		"redis":  {connect(t, backend.URL()), connect(t, serve(t, server.Options{URL: backend.URL()}))},
	} {
		t.Run(name, func(t *testing.T) {
			own, err := lock.New(door.direct, lock.Options{})
			must(t, err)
			lease, err := own.Acquire(t.Context(), "orders:42")
			must(t, err)
			theirs, err := lock.New(door.served, lock.Options{})
			must(t, err)
			if lease, busy, err := theirs.TryAcquire(t.Context(), "orders:42"); lease != nil || busy == nil || err != nil {
				t.Errorf("by the library: %v, %v, %v, want busy", lease, busy, err)
			}
			acquire := redoubt.Cmd{Name: "LOCK.ACQUIRE", Args: []string{"orders:42", "10000"}}
			if r := door.served.Do(t.Context(), acquire); r.Val != nil || r.Err != nil {
				t.Errorf("by LOCK.ACQUIRE: %v, %v, want nil", r.Val, r.Err)
			}
			must(t, lease.Release(t.Context()))
			if r := door.served.Do(t.Context(), acquire); r.Val == nil || r.Err != nil {
				t.Errorf("by LOCK.ACQUIRE of a free lock: %v, %v", r.Val, r.Err)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	e := newEngine(t)
	for want, opts := range map[string]server.Options{
		"neither Engine nor URL is set":               {},
		"Engine and URL are both set":                 {Engine: e, URL: "redis://127.0.0.1:1"},
		"takes no redis-cluster URL":                  {URL: "redis-cluster://127.0.0.1:1"},
		"malformed URL":                               {URL: "127.0.0.1:6379"},
		"MaxClientMemory is -1; want at least 0":      {Engine: e, MaxClientMemory: -1},
		"MaxClients is -1; want at least 0":           {Engine: e, MaxClients: -1},
		"Username is set and Password is empty":       {Engine: e, Username: "shop"},
		"contains a brace":                            {Engine: e, Prefix: "{"},
		"server: URL names a node of a cluster":       {URL: redistest.StartCluster(t, 1, 0).Nodes()[0].URL()},
		"server: goredis: not connected to 127.0.0.1": {URL: "redis://127.0.0.1:1"},
	} {
		_, err := server.New(t.Context(), opts)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", opts, err, want)
		}
	}
	// All faults at once, before it connects.
	_, err := server.New(t.Context(), server.Options{URL: "redis://127.0.0.1:1", Prefix: "{", MaxClients: -1, MaxClientMemory: -1})
	for _, want := range []string{"contains a brace", "MaxClients is -1", "MaxClientMemory is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "not connected") {
			t.Errorf("three faults: %v, want %q and no attempt to connect", err, want)
		}
	}
}

// A server opens the engine that its URL names, and closes it: the next one finds the data.
func TestEmbeddedURL(t *testing.T) {
	dir := t.TempDir()
	set := redoubt.Cmd{Name: "SET", Keys: []string{"k"}, Args: []string{"v"}}
	for name, end := range map[string]func(*server.Server) error{
		"close":    (*server.Server).Close,
		"shutdown": func(s *server.Server) error { return s.Shutdown(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, dir := range []string{"", dir} {
				srv, err := server.New(t.Context(), server.Options{URL: "embedded:" + dir})
				must(t, err)
				l, err := srv.Listen("tcp", "127.0.0.1:0")
				must(t, err)
				go func() { _ = srv.Serve(l) }()
				must(t, connect(t, "redis://"+l.Addr().String()).Do(t.Context(), set).Err)
				must(t, end(srv))
			}
			e, err := engine.Open(t.Context(), engine.Options{Dir: dir})
			must(t, err)
			_, err = server.New(t.Context(), server.Options{URL: "embedded:" + dir})
			if !errors.Is(err, engine.ErrLocked) {
				t.Errorf("while the directory is open: %v; want ErrLocked", err)
			}
			if v, err := e.Do(t.Context(), redoubt.Cmd{Name: "GETDEL", Keys: []string{"k"}}).Text(); v != "v" || err != nil {
				t.Errorf("the directory has %q, %v", v, err)
			}
			must(t, e.Close())
		})
	}
}

// Promise: A script without an end keeps neither Close nor Shutdown from returning.
func TestEndStopsScripts(t *testing.T) {
	const endless = "redis.call('SET', KEYS[1], 'v') while true do end"
	for name, end := range map[string]func(*server.Server) error{
		"close": (*server.Server).Close,
		"shutdown": func(s *server.Server) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("Shutdown: %w; want context.Canceled", err)
			}
			return nil
		},
	} {
		for where, commands := range map[string]string{
			"client":      "EVAL \"" + endless + "\" 1 k\r\n",
			"transaction": "MULTI\r\nEVAL \"" + endless + "\" 1 k\r\nEXEC\r\n",
			"sleep":       "SET k v\r\nDEBUG SLEEP 3600\r\n",
		} {
			t.Run(name+"/"+where, func(t *testing.T) {
				e, err := engine.Open(t.Context(), engine.Options{ScriptTimeout: -1})
				must(t, err)
				t.Cleanup(func() { _ = e.Close() })
				srv, err := server.New(t.Context(), server.Options{Engine: e})
				must(t, err)
				l, err := srv.Listen("tcp", "127.0.0.1:0")
				must(t, err)
				go func() { _ = srv.Serve(l) }()
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
				must(t, err)
				defer conn.Close()
				_, err = conn.Write([]byte(commands))
				must(t, err)
				await.Soon(t, "the script runs", func() bool { return e.UsedMemory() > 0 })
				must(t, end(srv))
				// The engine, and its own scripts, go on.
				must(t, e.Do(t.Context(), redoubt.Cmd{Name: "EVAL", Args: []string{"return 1", "0"}}).Err)
			})
		}
	}
}

// Promise: Without a password a server listens only where other machines can't reach it.
func TestExposedAddress(t *testing.T) {
	e := newEngine(t)
	for _, guarded := range []bool{false, true} {
		opts := server.Options{Engine: e}
		if guarded {
			opts.Password = "secret"
		}
		srv, err := server.New(t.Context(), opts)
		must(t, err)
		l, err := srv.Listen("tcp", "0.0.0.0:0")
		if guarded {
			must(t, err)
			must(t, l.Close())
		} else if !errors.Is(err, server.ErrExposed) {
			t.Errorf("Listen: %v, want ErrExposed", err)
		}
		// A listener of the program's own is no way around it.
		own, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "0.0.0.0:0")
		must(t, err)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(own) }()
		if guarded {
			client := connect(t, "redis://:secret@"+strings.Replace(own.Addr().String(), "[::]", "127.0.0.1", 1))
			must(t, client.Do(t.Context(), redoubt.Cmd{Name: "PING"}).Err)
			must(t, srv.Shutdown(context.Background()))
			if err := <-served; !errors.Is(err, server.ErrClosed) {
				t.Errorf("Serve: %v, want ErrClosed", err)
			}
			continue
		}
		if err := <-served; !errors.Is(err, server.ErrExposed) {
			t.Errorf("Serve: %v, want ErrExposed", err)
		}
		if _, err := own.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the listener: %v, want closed", err)
		}
		must(t, srv.Close())
	}
}
