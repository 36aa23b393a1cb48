package server_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
)

// many is more clients than there are pollers, so that some share one.
func many() int { return runtime.GOMAXPROCS(0) + 1 }

// faultySession has a back end that can't go on for a while, in one of three ways.
type faultySession struct {
	begun chan string   // "SLOW", "HELD", "SAVE", or "STOP", which claims to be quick, has come
	let   chan struct{} // they can go on
	open  *bool         // the last command was SAVE

	onStop func() // is called when STOP begins
}

func (s faultySession) Quick(args [][]byte) bool { return string(args[0]) != "SLOW" }

func (s faultySession) TryRun(dst []byte, args [][]byte) ([]byte, bool) {
	if string(args[0]) == "HELD" {
		return dst, false
	}
	return s.Run(context.Background(), dst, args), true
}

func (s faultySession) Run(_ context.Context, dst []byte, args [][]byte) []byte {
	switch name := string(args[0]); name {
	case "SLOW", "HELD", "STOP":
		if name == "STOP" {
			s.onStop()
		}
		s.begun <- name
		<-s.let
	case "SAVE":
		*s.open = true
	}
	return append(dst, "+DONE\r\n"...)
}

func (s faultySession) Synced() bool { return !*s.open }

func (s faultySession) Sync() error {
	if *s.open {
		*s.open = false
		s.begun <- "SAVE"
		<-s.let
	}
	return nil
}

func (faultySession) SetProtocol(resp.Protocol)                                           {}
func (faultySession) Close()                                                              {}
func (faultySession) SetAccount(func() func(int) bool)                                    {}
func (faultySession) SetLimits(func(string, [][]byte) (asks, runs func([][]byte) string)) {}
func (faultySession) HandedOver()                                                         {}

// Whatever one client's command waits for, others don't.
//
// Promise: One client's command holds up no client that uses other keys.
func TestNobodyIsHeldUp(t *testing.T) {
	for _, fault := range []string{"SLOW", "HELD", "SAVE"} {
		t.Run(fault, func(t *testing.T) {
			begun, let := make(chan string, 8), make(chan struct{})
			_, addr := start(t, engineURL(t), func(o *server.Options) {
				o.Sessions = func(net.Conn) server.Session {
					return faultySession{begun: begun, let: let, open: new(bool)}
				}
			})
			one := dial(t, addr)
			for range 2 { // the second time it may be known to be slow
				one.write(strings.Repeat(string(resp.AppendCommand(nil, fault, "a")), 2))
				if got := <-begun; got != fault {
					t.Fatalf("%s has begun", got)
				}
				for range many() {
					dial(t, addr).want("+DONE\r\n", "GET a")
				}
				// It can be asked for, too.
				o := dial(t, addr)
				if list := o.do("CLIENT", "LIST"); !strings.Contains(list, one.conn.LocalAddr().String()) {
					t.Errorf("CLIENT LIST: %q", list)
				}
				let <- struct{}{}
				if fault != "SAVE" { // which both waited for
					<-begun
					let <- struct{}{}
				}
				one.expect("+DONE\r\n")
				one.expect("+DONE\r\n")
				one.want("+DONE\r\n", "GET a") // it goes on as before
			}
		})
	}
}

// When the watchdog takes the lead, replies of earlier turns leave before any
// client has another turn. A thread that gets no processor while it writes them
// loses the lead too, so the usual case is this one.
func TestRepliesBeforeTheNextTurn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // one poller
	const rounds = 5
	late := 0
	for range rounds {
		begun, let := make(chan string, 8), make(chan struct{})
		var of atomic.Pointer[server.Server]
		var written atomic.Uint64 // when the last STOP began
		srv, addr := start(t, engineURL(t), func(o *server.Options) {
			o.Sessions = func(net.Conn) server.Session {
				return faultySession{begun: begun, let: let, open: new(bool), onStop: func() { written.Store(of.Load().Stats().BytesOut) }}
			}
		})
		of.Store(srv)
		first, quick, slow, last := dial(t, addr), dial(t, addr), dial(t, addr), dial(t, addr)
		first.write("STOP\r\n")
		<-begun // and the leader stops with it until all that follows is there
		quick.write("GET a\r\nGET a\r\n")
		slow.write("SLOW a\r\n")
		last.write("STOP\r\n")
		let <- struct{}{}
		<-begun
		<-begun
		if written.Load() < uint64(len("+DONE\r\n+DONE\r\n")) {
			late++
		}
		let <- struct{}{}
		let <- struct{}{}
		for _, w := range []*wire{first, quick, quick, slow, last} {
			w.expect("+DONE\r\n")
		}
	}
	if late > rounds/2 {
		t.Errorf("%d times of %d the replies came later", late, rounds)
	}
}

// A client may send all that it has and close its end: it gets every reply.
func TestSendAllThenClose(t *testing.T) {
	_, addr := start(t, engineURL(t))
	for _, n := range []int{1, 100, 20_000} {
		for _, word := range []string{"x", strings.Repeat("x", 3000)} {
			if n*len(word) > 4<<20 {
				continue
			}
			w := dial(t, addr)
			go func() {
				w.write(strings.Repeat(string(resp.AppendCommand(nil, "ECHO", word)), n/2) +
					strings.Repeat(string(resp.AppendCommand(nil, "GETRANGE", "nothing", "0", "1")), n-n/2))
				_ = w.conn.(*net.TCPConn).CloseWrite()
			}()
			for range n / 2 {
				w.expect(bulk(word))
			}
			for range n - n/2 {
				w.expect(bulk(""))
			}
			w.expectClosed()
		}
	}
}

// However the bytes of commands are cut, they are the same commands.
func TestCutAnywhere(t *testing.T) {
	_, addr := start(t, engineURL(t))
	w := dial(t, addr)
	large := strings.Repeat("v", 200_000)
	line := resp.AppendCommand(resp.AppendCommand(nil, "SET", "k", "v"), "GET", "k")
	for cut := range line {
		w.write(string(line[:cut]))
		dial(t, addr).want("+PONG\r\n", "PING") // it has been read, most likely
		w.write(string(line[cut:]))
		w.expect("+OK\r\n")
		w.expect(bulk("v"))
	}
	line = resp.AppendCommand(resp.AppendCommand(nil, "SET", "k", large), "GET", "k")
	for _, cut := range []int{1, 8 << 10, 16<<10 - 1, 16 << 10, 16<<10 + 1, 100_000, 200_010} {
		w.write(string(line[:cut]))
		dial(t, addr).want("+PONG\r\n", "PING")
		w.write(string(line[cut:]))
		w.expect("+OK\r\n")
		w.expect(bulk(large))
	}
}

// A client that doesn't read its replies holds up nobody, and gets them all.
func TestUnreadReplies(t *testing.T) {
	_, addr := start(t, engineURL(t))
	w := dial(t, addr)
	value := strings.Repeat("v", 128<<10)
	w.want("+OK\r\n", "SET k "+value)
	const n = 256
	w.write(strings.Repeat(string(resp.AppendCommand(nil, "GET", "k")), n))
	for range many() {
		dial(t, addr).want("+PONG\r\n", "PING")
	}
	for range n {
		w.expect(bulk(value))
	}
	w.want("+OK\r\n", "SET k v") // it goes on
	w.want(bulk("v"), "GET k")
}

// Clients that wait for something else go on with what they had sent ahead.
func TestSentAhead(t *testing.T) {
	_, addr := start(t, engineURL(t))
	w, o := dial(t, addr), dial(t, addr)
	w.write("*1\r\n$4\r\nPING\r\n*3\r\n$5\r\nBLPOP\r\n$1\r\nl\r\n$1\r\n0\r\n*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nEC")
	w.expect("+PONG\r\n")
	o.want(":1\r\n", "RPUSH l v")
	w.expect(array(bulk("l"), bulk("v")))
	w.expect("+PONG\r\n")
	w.write("HO\r\n$1\r\nx\r\n")
	w.expect(bulk("x"))
}

// Unix sockets are served in the same way.
func TestUnixSocketInProcess(t *testing.T) {
	srv, _ := start(t, engineURL(t))
	path := filepath.Join(t.TempDir(), "s")
	l, err := srv.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\nSET k v\r\n")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("+PONG\r\n+OK\r\n"))
	for n := 0; n < len(got); {
		m, err := conn.Read(got[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	if !bytes.Equal(got, []byte("+PONG\r\n+OK\r\n")) {
		t.Errorf("%q", got)
	}
	_ = srv.Close()
	if err := <-done; !errors.Is(err, server.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}

// descriptors returns how many this process has open, or 0 where nothing tells.
func descriptors(tb testing.TB) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil && runtime.GOOS == "linux" {
		tb.Fatal(err)
	}
	return len(all)
}

// connected opens the connection on which a server reads the schedules of queues, from a second after its start on.
func connected(t *testing.T, srv *server.Server) {
	t.Helper()
	if c := srv.Client(); c != nil {
		if err := c.Do(t.Context(), redoubt.Cmd{Name: "PING", Flags: redoubt.ReadOnly}).Err; err != nil {
			t.Fatal(err)
		}
	}
}

// Clients that come and go leave no descriptor, however they go.
func TestDescriptorsAreClosed(t *testing.T) {
	srv, addr := start(t, engineURL(t))
	connected(t, srv)
	o := dial(t, addr)
	var before int
	for round := range 3 {
		for i := range 20 {
			w := dial(t, addr)
			w.want("+OK\r\n", "SET k v")
			switch i % 5 {
			case 0:
				w.want("+OK\r\n", "QUIT")
			case 1:
				_ = w.conn.(*net.TCPConn).SetLinger(0)
			case 2:
				w.want("+OK\r\n", "MULTI") // it has a goroutine of its own
			case 3:
				o.want("+OK\r\n", "CLIENT KILL "+w.conn.LocalAddr().String())
			}
			_ = w.conn.Close()
		}
		eventually(t, "they are gone", func() bool { return srv.Stats().Clients == 1 })
		if round == 0 {
			before = descriptors(t)
		}
	}
	eventually(t, "their descriptors are closed", func() bool { return descriptors(t) <= before })
}

// BenchmarkIdleClients tells what a client that does nothing takes.
func BenchmarkIdleClients(b *testing.B) {
	_, addr := start(b, engineURL(b))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	conns := make([]net.Conn, 1000)
	for i := range conns {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("PING\r\n"))
		_, _ = conn.Read(make([]byte, 7))
		conns[i] = conn
	}
	for b.Loop() {
		_, _ = conns[0].Write([]byte("PING\r\n"))
		_, _ = conns[0].Read(make([]byte, 7))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/float64(len(conns)), "B/client")
}
