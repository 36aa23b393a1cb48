package server_test

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/faultnet"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

const lost = " lost before the reply: the command may have run\r\n"

// TestFaults: each fault is one error in the place of the command that it
// struck, and disturbs nothing else.
//
// Promise: A fault is one error reply, in the place of the command that it struck.
func TestFaults(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w := dial(t, addr)
		syntax := func(at string) string {
			return "-ERR syntax error at \"" + at + "\"; want LOCK.ACQUIRE name ttl_ms [BLOCK block_ms] [ID id | OWNER owner] [LABEL label] [SHARED | FAIR]\r\n"
		}
		for _, c := range []struct{ command, reply string }{
			{"LOCK.ACQUIRE", "-ERR wrong number of arguments for 'lock.acquire' command\r\n"},
			{"lock.extend a b", "-ERR wrong number of arguments for 'lock.extend' command\r\n"},
			{"LOCK.ACQUIRE a b", "-ERR value is not an integer or out of range\r\n"},
			{"LOCK.ACQUIRE a 1.5", "-ERR value is not an integer or out of range\r\n"},
			{"LOCK.ACQUIRE a 99999999999999999999", "-ERR value is not an integer or out of range\r\n"},
			{"LOCK.ACQUIRE a 0", "-ERR redoubt: ttl_ms is 0; want 1 to 31536000000\r\n"},
			{"LOCK.ACQUIRE a -1", "-ERR redoubt: ttl_ms is -1; want 1 to 31536000000\r\n"},
			{"LOCK.ACQUIRE a 1 BLOCK", syntax("BLOCK")},
			{"LOCK.ACQUIRE a 1 BLOCK x", "-ERR value is not an integer or out of range\r\n"},
			{"LOCK.ACQUIRE a 1 BLOCK -1", "-ERR redoubt: BLOCK is -1; want 0 to 315360000000\r\n"},
			{"LOCK.ACQUIRE a 1 BLOCK 1 BLOCK 1", syntax("BLOCK")},
			{"LOCK.ACQUIRE a 1 WAIT 1", syntax("WAIT")},
			{"LOCK.ACQUIRE a 1 ID x OWNER y", syntax("OWNER")},
			{"LOCK.ACQUIRE a 1 SHARED SHARED", syntax("SHARED")},
			{"LOCK.ACQUIRE a 1 FAIR fair", syntax("FAIR")},
			{"LOCK.ACQUIRE a 1 SHARED FAIR", "-ERR redoubt: FAIR is not for SHARED locks\r\n"},
			{"LOCK.ACQUIRE a 1 NOSUCH x", syntax("NOSUCH")},
			{"LOCK.ACQUIRE }a 1", "-ERR redoubt: invalid name: \"}a\" begins with '}'\r\n"},
			{"LOCK.ACQUIRE a 1 LABEL " + strings.Repeat("x", 257), "-ERR redoubt: LABEL has 257 bytes; want at most 256\r\n"},
			{"LOCK.ACQUIRE a 1 ID " + strings.Repeat("x", 257), "-ERR redoubt: ID has 257 bytes; want 1 to 256\r\n"},
			{"LOCK.EXTEND a " + strings.Repeat("x", 257) + " 1", "-ERR redoubt: ID has 257 bytes; want 1 to 256\r\n"},
			{"SEM.RELEASE a " + strings.Repeat("x", 257), "-ERR redoubt: ID has 257 bytes; want 1 to 256\r\n"},
			{"LOCK.EXTEND a b 0", "-ERR redoubt: ttl_ms is 0; want 1 to 31536000000\r\n"},
			{"SYNC x", "-ERR wrong number of arguments for 'sync' command\r\n"},
			{"ECHO", "-ERR wrong number of arguments for 'echo' command\r\n"},
		} {
			w.want(c.reply, c.command)
			w.want(bulk("next"), "ECHO next")
		}
		w.want("+OK\r\n", "SET "+b.Prefix+"k v")
		w.write("SET " + b.Prefix + "k \"in line\"\r\nGET " + b.Prefix + "k\r\n")
		w.expect("+OK\r\n")
		w.expect(bulk("in line"))
	})
}

func TestBrokenProtocol(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL(), func(o *server.Options) { o.Limits.MaxBulk = 1000 })
	for _, c := range []struct{ raw, reply string }{
		{"*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
		{"*1\r\nx\r\n", "-ERR Protocol error: expected '$', got 'x'\r\n"},
		{"*2\r\n$3\r\nSET\r\n$1001\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
		{"SET \"k\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"},
	} {
		other := dial(t, addr)
		w := dial(t, addr)
		w.write("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n1\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" + c.raw + "*1\r\n$4\r\nPING\r\n")
		w.expect("+OK\r\n")
		w.expect(bulk("1"))
		w.expect(c.reply)
		w.expectClosed()
		other.want(bulk("1"), "GET k")
	}
	if n := srv.Stats().ProtocolErrors; n != 4 {
		t.Errorf("%d protocol errors counted, want 4", n)
	}
}

func TestUnreachableBackend(t *testing.T) {
	backend := redistest.Start(t)
	backend.Kill()
	_, addr := start(t, backend.URL())
	w := dial(t, addr)
	prefix := "-ERR redoubt: back end " + backend.Addr() + " is unreachable: "
	for _, c := range []string{"GET k", "LOCK.RELEASE a b", "MULTI", "SUBSCRIBE a", "BLPOP a 0", "COMMAND COUNT", "HELLO 3"} {
		if got := w.do(strings.Fields(c)...); !strings.HasPrefix(got, prefix) {
			t.Errorf("%s: %q, want %s…", c, got, prefix)
		}
		w.want(bulk("here"), "ECHO here")
	}
	backend.Restart()
	eventually(t, "the connection is back", func() bool { return dial(t, addr).do("SET", "k", "v") == "+OK\r\n" })
	// A client that was connected before goes on.
	eventually(t, "in RESP3 too", func() bool { return w.do("HELLO", "3")[0] == '%' && w.do("GET", "k") == bulk("v") })
}

// TestBackendDies kills the back end while commands of many clients are in
// flight: every command has exactly one reply, errors say what is known, and
// the same connections work again afterwards.
func TestBackendDies(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	dial(t, addr).want("+OK\r\n", "SET n 0")
	passed := func(n uint64) func() bool {
		return func() bool { return srv.Stats().Commands[server.Passed] == n }
	}
	eventually(t, "the first is counted", passed(1))
	backend.Pause()
	const clients, each = 8, 15
	var all []byte
	for i := range each {
		switch i % 3 {
		case 0:
			all = resp.AppendCommand(all, "INCR", "n")
		case 1:
			all = resp.AppendCommand(all, "ECHO", strconv.Itoa(i))
		case 2:
			all = resp.AppendCommand(all, "LOCK.RELEASE", "a", "b")
		}
	}
	ws := make([]*wire, clients)
	for i := range ws {
		ws[i] = dial(t, addr)
		ws[i].write(string(all))
	}
	eventually(t, "commands are in flight", passed(1+clients*each/3))
	blocked := dial(t, addr)
	backend.Kill()
	text := "-ERR redoubt: connection to back end " + backend.Addr()
	var wg sync.WaitGroup
	for _, w := range ws {
		wg.Go(func() {
			for i := range each {
				got, err := w.next()
				want := text
				if i%3 == 1 {
					want = bulk(strconv.Itoa(i))
				}
				if err != nil || !strings.HasPrefix(got, want) || i%3 != 1 && !strings.HasSuffix(got, lost) && !strings.HasSuffix(got, "was not sent\r\n") {
					t.Errorf("reply %d: %q %v", i, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	backend.Restart()
	eventually(t, "the connection is back", func() bool { return blocked.do("SET", "back", "1") == "+OK\r\n" })
	for _, w := range ws {
		w.want(bulk("1"), "GET back")
		w.want(":0\r\n", "LOCK.RELEASE a b") // the script was loaded again
	}
}

// A client whose own connection is lost has lost its state, and is closed.
func TestDedicatedConnectionDies(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	w := dial(t, addr)
	w.want("+OK\r\n", "WATCH k")
	w.send("BLPOP", "nothing", "0")
	eventually(t, "it waits", func() bool { return strings.Contains(backend.CLI("CLIENT", "LIST"), "cmd=blpop") })
	backend.Kill()
	if got := w.read(); !strings.HasSuffix(got, lost) {
		t.Errorf("BLPOP: %q", got)
	}
	w.expectClosed()
	eventually(t, "no dedicated connection is left", func() bool { return srv.Stats().Dedicated == 0 })
}

func TestClientThatGoesEndsItsBlocking(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	w := dial(t, addr)
	w.send("BLPOP", "list", "0")
	eventually(t, "it waits", func() bool { return strings.Contains(backend.CLI("CLIENT", "LIST"), "cmd=blpop") })
	_ = w.conn.Close()
	eventually(t, "it waits no more", func() bool { return !strings.Contains(backend.CLI("CLIENT", "LIST"), "cmd=blpop") })
	eventually(t, "it is forgotten", func() bool { return srv.Stats().Clients == 0 && srv.Stats().Dedicated == 0 })
	dial(t, addr).want(":1\r\n", "RPUSH list x")
	dial(t, addr).want(array(bulk("list"), bulk("x")), "BLPOP list 1")
}

// A client that closes only its sending side, like printf | nc, has its
// replies.
func TestHalfClose(t *testing.T) {
	backend := redistest.Start(t)
	_, addr := start(t, backend.URL())
	w := dial(t, addr)
	w.write("SET k v\r\nGET k\r\nLOCK.RELEASE a b\r\n")
	if err := w.conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	w.expect("+OK\r\n")
	w.expect(bulk("v"))
	w.expect(":0\r\n")
	w.expectClosed()
}

// TestSlowConsumer: a client that takes no replies is closed after the write
// time-out, and others don't notice it.
func TestSlowConsumer(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL(), func(o *server.Options) {
		o.WriteTimeout = 300 * time.Millisecond
		o.MaxOutput = 1 << 20
		o.MaxPipeline = 32 // the first commands leave before any reply shows its size
	})
	slow, other := dial(t, addr), dial(t, addr)
	slow.want("+OK\r\n", "SET big "+strings.Repeat("x", 1<<20))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		get := resp.AppendCommand(nil, "GET", "big")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = slow.conn.SetWriteDeadline(time.Now().Add(patience))
			if _, err := slow.conn.Write(get); err != nil {
				return
			}
		}
	})
	eventually(t, "the slow client is closed", func() bool {
		other.want("+PONG\r\n", "PING")
		other.want(":1\r\n", "EXISTS big")
		return srv.Stats().Clients == 1
	})
	close(stop)
	wg.Wait()
}

// A subscriber that takes no messages is closed long before they fill the
// memory.
func TestSlowSubscriber(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL(), func(o *server.Options) { o.MaxOutput = 1 << 20 })
	slow, other := dial(t, addr), dial(t, addr)
	slow.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", "SUBSCRIBE x")
	message := strings.Repeat("m", 1<<20)
	for range 100 {
		if srv.Stats().Clients == 1 {
			return
		}
		other.do("PUBLISH", "x", message)
	}
	t.Error("100 MB wait for a subscriber that takes nothing")
}

// Large replies that wait leave a subscriber room for its messages; what counts
// is how many of these wait.
func TestMessagesBesideLargeReplies(t *testing.T) {
	each(t, func(t *testing.T, b redistest.Backend) {
		srv, addr := start(t, b.URL, func(o *server.Options) { o.MaxOutput = 1 << 20 })
		w, other := dial(t, addr), dial(t, addr)
		if got := w.do("HELLO", "3"); got[0] != '%' {
			t.Fatal(got)
		}
		w.want(">3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", "SUBSCRIBE x")
		_ = w.conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		value := strings.Repeat("v", 8<<20) // more than MaxOutput and what sockets hold
		other.want("+OK\r\n", "SET big "+value)
		w.send("GET", "big")
		w.buf = make([]byte, 1<<10) // of the reply, which is on its way
		_ = w.conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(w.conn, w.buf); err != nil {
			t.Fatal(err)
		}
		message := strings.Repeat("m", 300<<10)
		for range 3 {
			other.want(":1\r\n", "PUBLISH x "+message)
		}
		if got := w.read(); got != bulk(value) {
			t.Fatalf("%.40q", got)
		}
		for range 3 {
			w.expect(">3\r\n$7\r\nmessage\r\n$1\r\nx\r\n" + bulk(message))
		}
		w.send("GET", "big") // which it never takes
		for range 100 {
			if srv.Stats().Clients == 1 {
				return
			}
			other.do("PUBLISH", "x", message)
		}
		t.Error("30 MB wait for a subscriber that takes nothing")
	})
}

// stat returns what follows name in the back end's statistics.
func stat(t *testing.T, backend *redistest.Server, name string) string {
	t.Helper()
	_, rest, _ := strings.Cut(backend.CLI("INFO", "commandstats"), name)
	value, _, _ := strings.Cut(rest, ",")
	return value
}

// TestLateConsumer: a client that takes its replies late, but before the write
// time-out, gets all of them, however many they are.
func TestLateConsumer(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL(), func(o *server.Options) { o.MaxOutput = 1 << 20 })
	late := dial(t, addr)
	value := strings.Repeat("x", 50<<10)
	late.want("+OK\r\n", "SET big "+value)
	const n = 1500 // 75 MB: far more than MaxOutput and what sockets hold
	var all []byte
	for range n {
		all = resp.AppendCommand(all, "GET", "big")
	}
	late.write(string(all))
	// Until the server takes no more: it has read what it has, and everything
	// that it asked for has come.
	last, same := uint64(0), 0
	eventually(t, "the server stops reading", func() bool {
		now := srv.Stats().BytesOut
		if now != last || now == 0 {
			last, same = now, 0
		}
		same++
		return same > 20
	})
	if got := srv.Stats().BytesOut; got > n*50<<10/2 {
		t.Errorf("%d bytes were written to a client that takes nothing", got)
	}
	if commands, err := strconv.Atoi(stat(t, backend, "cmdstat_get:calls=")); err != nil || commands > n/2 {
		t.Errorf("the back end was asked for %d values, %v", commands, err)
	}
	for i := range n {
		if got := late.read(); got != bulk(value) {
			t.Fatalf("reply %d: %.40q…", i, got)
		}
	}
	late.want("+PONG\r\n", "PING")
}

func TestLimits(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL(), func(o *server.Options) {
		o.MaxClients = 2
		o.MaxPipeline = 4
	})
	a := dial(t, addr)
	a.want("+PONG\r\n", "PING")
	b := dial(t, addr)
	b.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", "SUBSCRIBE x")
	c := dial(t, addr)
	c.expect("-ERR max number of clients reached\r\n")
	c.expectClosed()
	// More than may be in flight, in one write.
	var all []byte
	for i := range 1000 {
		all = resp.AppendCommand(all, "SET", "k", strconv.Itoa(i))
		all = resp.AppendCommand(all, "GET", "k")
		all = resp.AppendCommand(all, "PING")
	}
	a.write(string(all))
	for i := range 1000 {
		a.expect("+OK\r\n")
		a.expect(bulk(strconv.Itoa(i)))
		a.expect("+PONG\r\n")
	}
	_ = a.conn.Close()
	if st := srv.Stats(); st.Refused != 1 {
		t.Errorf("%+v", st)
	}
	eventually(t, "there is room again", func() bool { return srv.Stats().Clients == 1 })
	dial(t, addr).want(":1\r\n", "PUBLISH x m")
	b.expect("*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\nm\r\n")
}

func TestShutdown(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	idle, busy, subscriber, waiter, holder := dial(t, addr), dial(t, addr), dial(t, addr), dial(t, addr), dial(t, addr)
	idle.want("+PONG\r\n", "PING")
	subscriber.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", "SUBSCRIBE x")
	_ = holder.do("LOCK.ACQUIRE", "l", "60000")
	waiter.send("LOCK.ACQUIRE", "l", "60000", "BLOCK", "0")
	busy.send("BLPOP", "list", "0")
	eventually(t, "both wait", func() bool {
		return strings.Contains(backend.CLI("CLIENT", "LIST"), "cmd=blpop") && srv.Stats().Commands[server.Waited] == 1
	})
	done := make(chan error, 1)
	go func() { done <- srv.Shutdown(t.Context()) }()
	idle.expectClosed()
	subscriber.expectClosed()
	if got := waiter.read(); got != "-ERR redoubt: the server is shutting down\r\n" {
		t.Errorf("waiting: %q", got)
	}
	waiter.expectClosed()
	if conn, err := net.Dial("tcp", addr); err == nil {
		_ = conn.Close()
		t.Error("a new client was accepted")
	}
	busy.expectClosed()
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if d := srv.Drained(); d.Clients != 0 || d.Commands != 0 {
		t.Errorf("it could not finish %+v", d)
	}
}

func TestShutdownIsBounded(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL())
	busy := dial(t, addr)
	busy.want("$-1\r\n", "GET k")
	backend.Pause()
	defer backend.Resume()
	before := srv.Stats().Commands[server.Passed]
	busy.send("GET", "k")
	eventually(t, "it is sent", func() bool { return srv.Stats().Commands[server.Passed] > before })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := srv.Shutdown(ctx); err != context.DeadlineExceeded { //nolint:errorlint // exactly this
		t.Errorf("Shutdown: %v, want DeadlineExceeded", err)
	}
	busy.expectClosed()
	if d := srv.Drained(); d.Clients != 1 || d.Commands != 1 {
		t.Errorf("it could not finish %+v; want a client with a command", d)
	}
}

// TestSlowStart: before the size of replies is known, few commands are sent.
//
// Promise: Commands in flight and waiting replies of a client are bounded.
func TestSlowStart(t *testing.T) {
	backend := redistest.Start(t)
	srv, addr := start(t, backend.URL(), func(o *server.Options) { o.MaxOutput = 1 << 20 })
	w := dial(t, addr)
	const n, size = 200, 2 << 20
	backend.CLI("SETRANGE", "big", strconv.Itoa(size-1), "x")
	w.write(strings.Repeat(string(resp.AppendCommand(nil, "GET", "big")), n))
	eventually(t, "replies are written", func() bool { return srv.Stats().BytesOut > 0 })
	if commands, err := strconv.Atoi(stat(t, backend, "cmdstat_get:calls=")); err != nil || commands > 40 {
		t.Errorf("the back end was asked for %d values at once, %v", commands, err)
	}
	for range 20 {
		if got := w.read(); len(got) < size {
			t.Fatalf("%.40q…", got)
		}
	}
}

// TestLargeInFlight: of large replies, a client is asked for few at once.
//
// Promise: Commands in flight and waiting replies of a client are bounded.
func TestLargeInFlight(t *testing.T) {
	backend := redistest.Start(t)
	network := faultnet.New(t, backend.Addr())
	_, addr := start(t, "redis://"+network.Addr())
	w := dial(t, addr)
	const known, n, size = 20, 100, 1 << 20
	backend.CLI("SETRANGE", "big", strconv.Itoa(size-1), "x")
	ask := func(n int) { w.write(strings.Repeat(string(resp.AppendCommand(nil, "GET", "big")), n)) }
	asked := func() int {
		calls, err := strconv.Atoi(stat(t, backend, "cmdstat_get:calls="))
		if err != nil {
			t.Fatal(err)
		}
		return calls
	}
	ask(known)
	for range known {
		if got := w.read(); len(got) < size {
			t.Fatalf("%.40q…", got)
		}
	}
	network.Blackhole(faultnet.ToClient)
	ask(n)
	const most = 4
	eventually(t, "the next are asked for", func() bool { return asked() >= known+most-1 })
	if at := asked(); at > known+most {
		t.Errorf("the back end was asked for %d values at once, want at most %d", at-known, most)
	}
	network.Heal()
	for range n {
		if got := w.read(); len(got) < size {
			t.Fatalf("%.40q…", got)
		}
	}
}

// TestNoReplicasThroughAProxy: a replica of what is behind a server follows that.
func TestNoReplicasThroughAProxy(t *testing.T) {
	_, addr := start(t, redistest.Start(t).URL())
	w := dial(t, addr)
	for _, command := range []string{"SYNC", "PSYNC ? -1", "REPLCONF capa eof"} {
		name, _, _ := strings.Cut(command, " ")
		w.want("-ERR redoubt: "+name+" is not supported through redoubt: replicate from the back end itself\r\n", command)
	}
}
