package server_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestGoneWhileBlocked: a client that goes while it waits takes nothing any more. Elements that are pushed afterwards
// stay, as on Redis. Its command ends at once, and not after the time that a client has for its other replies.
func TestGoneWhileBlocked(t *testing.T) {
	for name, url := range map[string]string{"engine": engineURL(t), "redis": redistest.Start(t).URL()} {
		_, addr := start(t, url)
		watcher := dial(t, addr)
		blocked := func() bool { return !strings.Contains(watcher.do("INFO", "clients"), "blocked_clients:0\r\n") }
		quickest := time.Hour
		for range 3 {
			for _, command := range []string{"BLPOP list 0", "BRPOP list 0", "BLMOVE list list LEFT RIGHT 0", "BZPOPMIN zset 0"} {
				w := dial(t, addr)
				w.send(words(t, command)...)
				await.Soon(t, "the client waits", blocked)
				w.conn.Close()
				gone := time.Now()
				await.Soon(t, "the client is gone", func() bool { return !blocked() })
				quickest = min(quickest, time.Since(gone))
			}
		}
		if quickest > 50*time.Millisecond {
			t.Errorf("%s: a client that is gone takes elements for %v", name, quickest)
		}
	}
}

// TestHalfCloseKeepsReplies: a client that has sent all, and closes its sending side, gets its replies. A command that
// could wait and does not is no exception.
func TestHalfCloseKeepsReplies(t *testing.T) {
	for name, url := range map[string]string{"engine": engineURL(t), "redis": redistest.Start(t).URL()} {
		_, addr := start(t, url)
		for range 20 {
			w := dial(t, addr)
			w.write("*3\r\n$5\r\nRPUSH\r\n$4\r\nlist\r\n$1\r\na\r\n*3\r\n$5\r\nBLPOP\r\n$4\r\nlist\r\n$1\r\n0\r\n*1\r\n$4\r\nPING\r\n")
			if err := w.conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{":1\r\n", "*2\r\n$4\r\nlist\r\n$1\r\na\r\n", "+PONG\r\n"} {
				if got, err := w.next(); got != want {
					t.Fatalf("%s: got %q, %v, want %q", name, got, err, want)
				}
			}
		}
	}
}
