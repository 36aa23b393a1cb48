package server_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
)

// scripted are commands that become scripts; nothing in their replies is
// random, and the clock hardly shows in them.
var scripted = strings.Split(strings.TrimSpace(`
CL.THROTTLE limit 4 1 3600
SCRIPT FLUSH
CL.THROTTLE limit 4 1 3600 2
cl.throttle limit 4 1 3600 9
CL.THROTTLE limit
LOCK.EXTEND l me 60000
LOCK.RELEASE l me
CLIENT REPLY SKIP
CL.THROTTLE limit 4 1 3600
CLIENT REPLY SKIP
SET skipped 1
GET skipped
`), "\n")

// A client whose commands are run here gets the bytes that it would get through
// a connection to the same engine, one by one and in a pipeline.
//
// Promise: A session on an embedded engine answers as one on a connection does.
func TestDifferentialInProcess(t *testing.T) {
	lines := slices.Concat(scripted, conversation)
	for _, protocol := range []string{"2", "3"} {
		for _, pipelined := range []bool{false, true} {
			_, through := start(t, engineURL(t), func(o *server.Options) { o.Sessions = nil })
			_, straight := start(t, engineURL(t))
			a, b := dial(t, through), dial(t, straight)
			_, _ = a.do("HELLO", protocol), b.do("HELLO", protocol)
			var pending []string
			var raw []byte
			settle := func() {
				t.Helper()
				a.write(string(raw))
				b.write(string(raw))
				for _, line := range pending {
					if want, got := a.read(), b.read(); want != got {
						t.Errorf("RESP%s, pipelined %t, %s:\n got %q\nwant %q", protocol, pipelined, line, got, want)
					}
				}
				raw, pending = nil, nil
			}
			skipped := false
			for _, line := range lines {
				if strings.HasPrefix(line, "ACL ") {
					continue // the server answers it where the engine is in its process; the engine has no users
				}
				if pipelined && line == "SUBSCRIBE ch" {
					break // from here on the number of replies is another
				}
				raw = resp.AppendCommand(raw, words(t, line)...)
				skip := line == "CLIENT REPLY SKIP"
				if !skip && !skipped {
					pending = append(pending, line)
				}
				if skipped = skip; !pipelined && !skip {
					settle()
				}
			}
			settle()
			// Nothing more came than was counted.
			if a.want(bulk("end"), "ECHO end"); len(a.buf) > 0 {
				t.Errorf("through a connection more came: %q", a.buf)
			}
			if b.want(bulk("end"), "ECHO end"); len(b.buf) > 0 {
				t.Errorf("more came: %q", b.buf)
			}
		}
	}
}

// unsafeSession answers everything, and can save nothing.
type unsafeSession struct{ runs *atomic.Int32 }

func (s unsafeSession) Run(_ context.Context, dst []byte, _ [][]byte) []byte {
	s.runs.Add(1)
	return append(dst, "+DONE\r\n"...)
}
func (unsafeSession) Sync() error         { return errors.New("MISCONF not saved") }
func (unsafeSession) Quick([][]byte) bool { return false }
func (unsafeSession) Synced() bool        { return false }
func (s unsafeSession) TryRun(dst []byte, args [][]byte) ([]byte, bool) {
	return s.Run(context.Background(), dst, args), true
}
func (unsafeSession) SetProtocol(resp.Protocol)                                           {}
func (unsafeSession) SetAccount(func() func(int) bool)                                    {}
func (unsafeSession) SetLimits(func(string, [][]byte) (asks, runs func([][]byte) string)) {}
func (unsafeSession) HandedOver()                                                         {}
func (unsafeSession) Close()                                                              {}

// No reply leaves that is not safe.
func TestUnsafeReplies(t *testing.T) {
	const refused = "-MISCONF not saved\r\n"
	var runs atomic.Int32
	_, addr := start(t, engineURL(t), func(o *server.Options) {
		o.Sessions = func(net.Conn) server.Session { return unsafeSession{&runs} }
	})
	w := dial(t, addr)
	w.want(refused, "SET a 1")
	w.want(refused, "SCRIPT EXISTS x")
	w.want(refused, "LOCK.RELEASE a b")
	if n := runs.Load(); n != 3 {
		t.Errorf("%d commands were run, want 3", n)
	}
	// Of several, nobody could tell which one the error is for.
	w.write(string(resp.AppendCommand(resp.AppendCommand(nil, "SET", "a", "1"), "SET", "a", "2")))
	w.expect(refused)
	w.expectClosed()
}

// A command that has to wait all the same holds its client, and ends with the
// server.
func TestWaitInProcess(t *testing.T) {
	waits := make(chan struct{})
	srv, addr := start(t, engineURL(t), func(o *server.Options) {
		o.Sessions = func(net.Conn) server.Session { return waitingSession{waits} }
	})
	w := dial(t, addr)
	w.send("GET", "a")
	<-waits
	_ = srv.Close() // returns, or the test does not end
	w.expectClosed()
}

// waitingSession runs commands that wait for ever.
type waitingSession struct{ waits chan struct{} }

func (s waitingSession) Run(ctx context.Context, dst []byte, _ [][]byte) []byte {
	s.waits <- struct{}{}
	<-ctx.Done()
	return dst
}
func (waitingSession) Sync() error                                                         { return nil }
func (waitingSession) Quick([][]byte) bool                                                 { return false }
func (waitingSession) Synced() bool                                                        { return true }
func (waitingSession) TryRun(dst []byte, _ [][]byte) ([]byte, bool)                        { return dst, false }
func (waitingSession) SetProtocol(resp.Protocol)                                           {}
func (waitingSession) SetAccount(func() func(int) bool)                                    {}
func (waitingSession) SetLimits(func(string, [][]byte) (asks, runs func([][]byte) string)) {}
func (waitingSession) HandedOver()                                                         {}
func (waitingSession) Close()                                                              {}

// heldSession runs a command once it is let.
type heldSession struct{ begun, let chan struct{} }

func (s heldSession) Run(_ context.Context, dst []byte, _ [][]byte) []byte {
	s.begun <- struct{}{}
	<-s.let
	return append(dst, "+DONE\r\n"...)
}
func (heldSession) Sync() error         { return nil }
func (heldSession) Quick([][]byte) bool { return false }
func (heldSession) Synced() bool        { return true }
func (s heldSession) TryRun(dst []byte, args [][]byte) ([]byte, bool) {
	return s.Run(context.Background(), dst, args), true
}
func (heldSession) SetProtocol(resp.Protocol)                                           {}
func (heldSession) Close()                                                              {}
func (heldSession) SetAccount(func() func(int) bool)                                    {}
func (heldSession) SetLimits(func(string, [][]byte) (asks, runs func([][]byte) string)) {}
func (heldSession) HandedOver()                                                         {}

// TestKilledInProcess: a killed client runs none of the commands that it sent ahead.
func TestKilledInProcess(t *testing.T) {
	held := heldSession{make(chan struct{}, 8), make(chan struct{})}
	srv, addr := start(t, engineURL(t), func(o *server.Options) {
		o.Sessions = func(net.Conn) server.Session { return held }
	})
	a, b := dial(t, addr), dial(t, addr)
	id, _ := a.value("CLIENT", "ID").(int64)
	a.write(strings.Repeat("*2\r\n$3\r\nGET\r\n$1\r\na\r\n", 8))
	<-held.begun
	b.want(":1\r\n", "CLIENT KILL ID "+itoa(id))
	close(held.let)
	a.expectClosed()
	eventually(t, "it is gone", func() bool { return srv.Stats().Clients == 1 })
	if n := len(held.begun); n > 0 {
		t.Errorf("%d commands were run after the client was killed", n)
	}
}

// Whose command runs is not idle.
func TestRunningHereIsNotIdle(t *testing.T) {
	held := heldSession{make(chan struct{}, 1), make(chan struct{})}
	_, addr := start(t, engineURL(t), func(o *server.Options) {
		o.IdleTimeout = 200 * time.Millisecond
		o.Sessions = func(net.Conn) server.Session { return held }
	})
	w := dial(t, addr)
	w.send("GET", "a")
	<-held.begun
	dial(t, addr).expectClosed() // idle, and came later
	close(held.let)
	w.expect("+DONE\r\n")
}
