package server_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestShutdownGivesReplies: a client has the replies that it waits for, also
// when messages may come to it.
func TestShutdownGivesReplies(t *testing.T) {
	for _, c := range []struct{ name, command, confirmation string }{
		{"subscriber", "SUBSCRIBE x", ">3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n"},
		{"tracking", "CLIENT TRACKING ON", "+OK\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			backend := redistest.Start(t)
			srv, addr := start(t, backend.URL())
			w := dial(t, addr)
			_ = w.do("HELLO", "3")
			w.want(c.confirmation, c.command)
			backend.Pause()
			defer backend.Resume()
			before := srv.Stats().Commands[server.Passed]
			w.send("RPUSH", "list", "v")
			eventually(t, "it is sent", func() bool { return srv.Stats().Commands[server.Passed] > before })
			done := make(chan error, 1)
			go func() { done <- srv.Shutdown(t.Context()) }()
			eventually(t, "it drains", func() bool {
				conn, err := net.Dial("tcp", addr)
				if err == nil {
					_ = conn.Close()
				}
				return err != nil
			})
			select {
			case err := <-done:
				t.Fatalf("Shutdown returned %v while a command was in flight", err)
			default:
			}
			backend.Resume()
			want := ":1\r\n"
			got := w.read()
			for got[0] == '>' {
				got = w.read()
			}
			if got != want {
				t.Errorf("RPUSH: %q, want %q", got, want)
			}
			if err := <-done; err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
	}
}

// TestShutdownWhileTheBackendHangs: that the back end takes no bytes does not
// hold up the end.
func TestShutdownWhileTheBackendHangs(t *testing.T) {
	for _, first := range []string{"PING", "WATCH k"} { // on the shared connection, and on one of its own
		t.Run(first, func(t *testing.T) {
			backend := redistest.Start(t)
			srv, addr := start(t, backend.URL())
			w := dial(t, addr)
			_ = w.do(strings.Fields(first)...)
			backend.Pause()
			value := strings.Repeat("x", 30<<20) // far more than sockets hold
			w.send("SET", "k", value)
			eventually(t, "the server has it", func() bool { return srv.Stats().BytesIn > uint64(len(value)) })
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- srv.Shutdown(ctx) }()
			select {
			case err := <-done:
				if err != context.DeadlineExceeded { //nolint:errorlint // exactly this
					t.Errorf("Shutdown: %v, want DeadlineExceeded", err)
				}
			case <-time.After(patience):
				t.Error("Shutdown hangs")
				backend.Kill()
				t.Log(<-done)
			}
		})
	}
}

// TestIdle: the time-out begins anew with the end of what a client waited for.
func TestIdle(t *testing.T) {
	const timeout = 400 * time.Millisecond
	for _, c := range []struct {
		name string
		wait func(w *wire, backend *redistest.Server)
	}{
		{"a blocking command", func(w *wire, _ *redistest.Server) {
			w.want("*-1\r\n", "BLPOP nothing 0.8")
		}},
		{"a lock", func(w *wire, _ *redistest.Server) {
			_ = w.do("LOCK.ACQUIRE", "l", "800")
			if got := w.do("LOCK.ACQUIRE", "l", "60000", "BLOCK", "0"); !strings.HasPrefix(got, "*3\r\n") {
				w.tb.Errorf("LOCK.ACQUIRE: %q", got)
			}
		}},
		{"the last subscription", func(w *wire, backend *redistest.Server) {
			w.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", "SUBSCRIBE x")
			backend.CLI("BLPOP", "nothing", "0.8") // longer than the time-out
			w.want("*3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n:0\r\n", "UNSUBSCRIBE x")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			backend := redistest.Start(t)
			_, addr := start(t, backend.URL(), func(o *server.Options) { o.IdleTimeout = timeout })
			w := dial(t, addr)
			c.wait(w, backend)
			began := time.Now()
			w.expectClosed()
			if idle := time.Since(began); idle < timeout/2 {
				t.Errorf("closed %v after its reply, want %v", idle, timeout)
			}
		})
	}
}

// A client that waits for messages is not idle.
func TestSubscriberIsNotIdle(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL(), func(o *server.Options) { o.IdleTimeout = 200 * time.Millisecond })
	subscriber := dial(t, addr)
	subscriber.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", "SUBSCRIBE x")
	dial(t, addr).expectClosed() // idle, and came later
	if n := srv.Stats().IdleClosed; n != 1 {
		t.Errorf("%d clients were closed as idle, want 1", n)
	}
	backend.CLI("PUBLISH", "x", "m")
	subscriber.expect("*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\nm\r\n")
}
