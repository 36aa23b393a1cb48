package memcached

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/proxy/ring"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// TestOrder: answers come in the order of the commands, whichever server gives
// them, or the pool itself.
//
// Promise: Answers come in the order of the commands.
func TestOrder(t *testing.T) {
	w := newEnv(t, 3, nil)
	u := dial(t, w.addr)
	of := w.keysOf(20)
	var text, want strings.Builder
	for i := range 20 {
		for _, keys := range of {
			k := keys[i]
			fmt.Fprintf(&text, "set %s 0 0 %d\r\n%s\r\nget %s\r\nfoo\r\nget %s %s\r\nset %s 0 0 1 noreply\r\n1\r\nincr %s 1\r\n",
				k, len(k), k, k, k, of[0][i], k, k)
			value := func(k, v string) string { return fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\n", k, len(v), v) }
			first := value(of[0][i], "2")
			if k == of[0][i] {
				first = value(k, k)
			}
			fmt.Fprintf(&want, "STORED\r\n%sEND\r\nERROR\r\n%s%sEND\r\n2\r\n", value(k, k), value(k, k), first)
		}
	}
	for round := range 50 {
		go func() { _, _ = u.conn.Write([]byte(text.String())) }()
		got := make([]byte, want.Len())
		for n := 0; n < len(got); {
			m, err := u.r.Read(got[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += m
		}
		// The values of two servers come in either order.
		if sorted(string(got)) != sorted(want.String()) {
			t.Fatalf("round %d: answered\n%.2000q, want\n%.2000q", round, got, want.String())
		}
	}
}

// patient is a time-out of servers that are well, on a machine that may stand still.
const patient = 5 * time.Second

// TestNoValueReachesAnotherClient: many clients, some of them without answers, while a server is
// killed, frozen and started again. Each value names its key and its client.
//
// Promise: When a server is down, only its keys get an error, and no value reaches another key or
// client.
//
// Promise: A retrieval gets a whole answer or one error.
func TestNoValueReachesAnotherClient(t *testing.T) {
	length := 1500 * time.Millisecond
	switch {
	case os.Getenv("MEMCACHED_FAULTS") == "full":
		length = 2 * time.Minute
	case testing.Short():
		length /= 3
	}
	w := newEnv(t, 3, func(o *Options) { o.Timeout, o.DialTimeout = patient, patient })
	bad := w.group.Load().nodes[0].server.Name
	var stop atomic.Bool
	var answers, faults atomic.Int64
	var clients sync.WaitGroup
	for c := range 12 {
		u := dial(t, w.addr)
		_ = u.conn.SetDeadline(time.Now().Add(length + 4*within))
		clients.Go(func() {
			for round := 0; !stop.Load(); round++ {
				if err := converse(w, u, c, round, bad, &answers, &faults); err != nil {
					t.Errorf("client %d, round %d: %v", c, round, err)
					return
				}
			}
		})
	}
	up := func(want bool) func() bool {
		return func() bool { return w.Stats().Servers[0].Up == want }
	}
	more := func() {
		n := answers.Load()
		await.Until(t, within, "more answers", func() bool { return answers.Load() > n+500 || t.Failed() })
	}
	for end := time.Now().Add(length); ; {
		s := w.servers[0]
		more()
		s.Kill()
		await.Until(t, within, "lost", up(false))
		more()
		s.Restart()
		await.Until(t, within, "connected again", up(true))
		more()
		before := w.Stats().Servers[0].Timeouts
		s.Pause()
		await.Until(t, within, "late", func() bool { return w.Stats().Servers[0].Timeouts > before })
		more()
		s.Resume()
		await.Until(t, within, "answering again", func() bool { return dial(t, w.addr).ask("get %s", w.keysOf(1)[0][0]) == "END" })
		if time.Now().After(end) || t.Failed() {
			break
		}
	}
	stop.Store(true)
	clients.Wait()
	t.Logf("%d answers, %d errors", answers.Load(), faults.Load())
	if faults.Load() == 0 {
		t.Error("no error: the faults were none")
	}
}

// converse sends a pipeline and checks its answers.
func converse(w *env, u *user, c, round int, bad string, answers, faults *atomic.Int64) error {
	const n = 16
	var text bytes.Buffer
	keys := make([]string, n)
	for i := range n {
		keys[i] = fmt.Sprintf("c%d:r%d:%d", c, round%7, i)
		fmt.Fprintf(&text, "set %s %d 0 %d noreply\r\n%s\r\nget %s\r\n", keys[i], round, len(keys[i]), keys[i], keys[i])
		if i > 0 {
			fmt.Fprintf(&text, "get %s %s\r\n", keys[i-1], keys[i])
		}
	}
	if _, err := u.conn.Write(text.Bytes()); err != nil {
		return err
	}
	for i, k := range keys {
		if err := readValues(w, u, bad, faults, round, k); err != nil {
			return err
		}
		if i > 0 {
			if err := readValues(w, u, bad, faults, round, keys[i-1], k); err != nil {
				return err
			}
		}
		answers.Add(2)
	}
	return nil
}

// readValues reads the answer to a retrieval. A server that is well has each value; that
// which is not may have lost it, or give an error that names it.
func readValues(w *env, u *user, bad string, faults *atomic.Int64, round int, keys ...string) error {
	missing := map[string]bool{}
	weak := false
	for _, k := range keys {
		missing[k] = true
		weak = weak || w.group.Load().pick([]byte(k)).server.Name == bad
	}
	for {
		l, err := u.r.ReadString('\n')
		if err != nil {
			return err
		}
		l = strings.TrimSuffix(l, "\r\n")
		switch {
		case strings.HasPrefix(l, "SERVER_ERROR redoubt: ") && weak && strings.Contains(l, "server "+bad+" ") && len(missing) == len(keys):
			faults.Add(1)
			return nil
		case l == "END":
			for k := range missing {
				if w.group.Load().pick([]byte(k)).server.Name != bad {
					return fmt.Errorf("no value of %s", k)
				}
			}
			return nil
		}
		var k string
		var r, size int
		if _, err := fmt.Sscanf(l, "VALUE %s %d %d", &k, &r, &size); err != nil || !missing[k] {
			return fmt.Errorf("%q to get %q", l, keys)
		}
		delete(missing, k)
		v, err := u.r.ReadString('\n')
		if err != nil || v != k+"\r\n" {
			return fmt.Errorf("%q to get %q: %w", v, k, err)
		}
		// A set that came to a server which was away is lost: then the value is of
		// another round.
		if r != round && w.group.Load().pick([]byte(k)).server.Name != bad {
			return fmt.Errorf("%q of round %d, want %d", k, r, round)
		}
	}
}

// TestFrozen: a client that waits for a server that hangs gets an error in time, and a later
// client at once. Clients of other servers notice nothing. The pool drops late replies.
//
// Promise: When a server hangs, its keys get an error within Timeout, and later commands one at
// once; the pool drops late replies.
func TestFrozen(t *testing.T) {
	w := newEnv(t, 2, func(o *Options) { o.Timeout = time.Second })
	of := w.keysOf(1)
	frozen, well := of[0][0], of[1][0]
	u, v := dial(t, w.addr), dial(t, w.addr)
	for _, k := range []string{frozen, well} {
		u.send("set %s 0 0 3\r\nabc\r\n", k)
		u.want("STORED")
	}
	w.servers[0].Pause()
	u.send("get %s\r\nget %s\r\n", frozen, well)
	v.send("get %s\r\n", well)
	for _, l := range []string{"VALUE " + well + " 0 3", "abc", "END"} {
		v.want(l)
	}
	for _, l := range []string{"SERVER_ERROR redoubt: server s0 did not answer within 1s: the command may have run", "VALUE " + well + " 0 3", "abc", "END"} {
		u.want(l)
	}
	connects := w.Stats().Servers[0].Connects
	if got, want := v.ask("delete %s", frozen), "SERVER_ERROR redoubt: server s0 is unreachable: it does not answer"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	w.servers[0].Resume()
	await.Until(t, within, "an answer", func() bool {
		l := u.ask("incr %s 1", frozen)
		return l == "CLIENT_ERROR cannot increment or decrement non-numeric value"
	})
	t.Logf("connections: %d, then %d", connects, w.Stats().Servers[0].Connects)
}

// TestLateReply: a reply that comes after its error was given is nobody else's, and
// the connection goes on.
//
// Promise: When a server hangs, its keys get an error within Timeout, and later commands one at
// once; the pool drops late replies.
func TestLateReply(t *testing.T) {
	f := newFake(t)
	w := &env{}
	w.open(t, Options{Name: "test", Servers: []Server{{Server: ring.Server{Name: "fake", Weight: 1}, Addr: f.addr}}, Timeout: time.Second})
	u := dial(t, w.addr)
	u.send("get a\r\n")
	f.want("get a\r\n")
	u.want("SERVER_ERROR redoubt: server fake did not answer within 1s: the command may have run")
	f.send("VALUE a 0 3\r\n")
	await.Until(t, within, "a server that is heard", func() bool {
		l := w.group.Load().nodes[0].conn.Load()
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.stalled.IsZero()
	})
	u.send("get b\r\n")
	f.want("get b\r\n")
	f.send("abc\r\nEND\r\nVALUE b 0 1\r\nb\r\nEND\r\n")
	for _, l := range []string{"VALUE b 0 1", "b", "END"} {
		u.want(l)
	}
	if n := w.Stats().Servers[0].Connects; n != 1 {
		t.Errorf("%d connections, want the first", n)
	}
}

// TestDesynchronised: a server that takes a value for commands is not believed any
// more.
//
// Promise: No client can read the answers of others or end the shared connection.
func TestDesynchronised(t *testing.T) {
	for _, answer := range []string{"ERROR\r\n", "CLIENT_ERROR bad command line format\r\n", "STORED\r\nEND\r\n", "VALUE a 0 x\r\n", "VALUE a 0 1\r\nabc", "VALUE a 0 1\r\na\r\nSTORED\r\n"} {
		f := newFake(t)
		w := &env{}
		w.open(t, Options{Name: "test", Servers: []Server{{Server: ring.Server{Name: "fake", Weight: 1}, Addr: f.addr}}})
		u := dial(t, w.addr)
		u.send("set a 0 0 7\r\nget b\r\n\r\n")
		f.want("set a 0 0 7\r\nget b\r\n\r\n")
		f.send("%s", answer)
		u.line()
		await.Until(t, within, "the connection broken after "+answer, func() bool { return w.Stats().Servers[0].Losses == 1 })
	}
}

// A fake is a server whose answers the test gives.
type fake struct {
	*user
	addr  string
	conns chan net.Conn
}

func newFake(t *testing.T) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	f := &fake{addr: l.Addr().String(), conns: make(chan net.Conn, 10)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, len("version\r\n"))
			_, _ = conn.Read(buf)
			_, _ = conn.Write([]byte("VERSION 1.6.18\r\n"))
			_, _ = io.ReadFull(conn, make([]byte, len("stats settings\r\n")))
			_, _ = conn.Write([]byte("ERROR\r\n"))
			f.conns <- conn
		}
	}()
	f.user = &user{t: t}
	return f
}

// want waits for a request.
func (f *fake) want(request string) {
	f.t.Helper()
	if f.conn == nil {
		select {
		case f.conn = <-f.conns:
		case <-time.After(within):
			f.t.Fatal("no connection to the server")
		}
		f.t.Cleanup(func() { _ = f.conn.Close() })
	}
	_ = f.conn.SetDeadline(time.Now().Add(within))
	got := make([]byte, 0, 4096)
	for len(got) < len(request) {
		n, err := f.conn.Read(got[len(got):cap(got)])
		got = got[:len(got)+n]
		if err != nil {
			f.t.Fatalf("%v after %q", err, got)
		}
	}
	if string(got) != request {
		f.t.Fatalf("the server got %q, want %q", got, request)
	}
}

// TestKilled: without FailureLimit the keys stay with a server that is away, their
// commands fail at once, and it is back as soon as it answers.
//
// Promise: When a server is down, only its keys get an error, and no value reaches another key or
// client.
//
// Promise: Without FailureLimit the ring never changes.
//
// Promise: A retrieval gets a whole answer or one error.
func TestKilled(t *testing.T) {
	w := newEnv(t, 2, nil)
	of := w.keysOf(1)
	u := dial(t, w.addr)
	digest := w.Digest()
	w.servers[0].Kill()
	await.Until(t, within, "an error", func() bool { return strings.Contains(u.ask("touch %s 0", of[0][0]), "server s0 is unreachable: dial") })
	if w.Digest() != digest || !w.Stats().Servers[0].Live {
		t.Error("the ring has changed")
	}
	if got := u.ask("touch %s 0", of[1][0]); got != "NOT_FOUND" {
		t.Error(got)
	}
	// One error for all keys of a retrieval, and for what all servers do.
	for _, c := range []string{"get " + of[0][0] + " " + of[1][0], "get " + of[1][0] + " " + of[0][0], "flush_all", "stats"} {
		if got := u.ask("%s", c); !strings.HasPrefix(got, "SERVER_ERROR redoubt: server s0 is unreachable: dial ") {
			t.Errorf("to %s answered %q", c, got)
		}
	}
	if got := u.ask("version"); got != "VERSION 1.6.18" && !strings.HasPrefix(got, "VERSION ") {
		t.Errorf("version answered %q while a server is there", got)
	}
	w.servers[0].Restart()
	await.Until(t, within, "back", func() bool { return u.ask("touch %s 0", of[0][0]) == "NOT_FOUND" })
}

// TestEjection: with FailureLimit the keys of a server that is away go to others,
// and come back with it, when it answers and RetryTimeout is over.
//
// Promise: With FailureLimit a server returns to the ring when RetryTimeout has passed and the
// server has answered.
func TestEjection(t *testing.T) {
	w := newEnv(t, 2, func(o *Options) { o.FailureLimit, o.RetryTimeout = 3, 700*time.Millisecond })
	of := w.keysOf(1)
	u := dial(t, w.addr)
	digest := w.Digest()
	u.ask("touch %s 0", of[0][0])
	killed := time.Now()
	w.servers[0].Kill()
	await.Until(t, within, "the other's answer", func() bool { return u.ask("touch %s 0", of[0][0]) == "NOT_FOUND" })
	s := w.Stats()
	if s.Servers[0].Live || s.Ejections != 1 || s.Servers[0].Failures < 3 || s.Digest == digest {
		t.Errorf("%+v", s)
	}
	w.servers[0].Restart()
	await.Until(t, within, "readmission", func() bool { return w.Digest() == digest })
	if d := time.Since(killed); d < 700*time.Millisecond {
		t.Errorf("back after %v", d)
	}
	if got := u.ask("touch %s 0", of[0][0]); got != "NOT_FOUND" {
		t.Error(got)
	}
	// A server that doesn't answer does not come back, and without one none is asked.
	for _, s := range w.servers {
		s.Kill()
	}
	await.Until(t, within, "no server", func() bool {
		return u.ask("touch %s 0", of[0][0]) == "SERVER_ERROR redoubt: pool test: all servers are ejected"
	})
	if w.Digest() != "" {
		t.Errorf("digest %q", w.Digest())
	}
}
