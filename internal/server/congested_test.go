package server_test

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/resp"
)

// A staller is a back end that stops in the middle of a large reply.
type staller struct {
	value   string
	stopped chan struct{} // closed when half of the reply to GET large has left
	goOn    chan struct{}
	held    atomic.Int64  // GET held that have no reply yet
	release chan struct{} // each answers one of them
	mu      sync.Mutex
	small   map[net.Conn]int // how many GET small came on each connection
}

func newStaller(t *testing.T) (s *staller, addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// More than two sockets take of it, so that the proxy reads a part of each half.
	s = &staller{value: strings.Repeat("v", 48<<20), stopped: make(chan struct{}), goOn: make(chan struct{}), release: make(chan struct{}), small: map[net.Conn]int{}}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
			go s.serve(conn)
		}
	}()
	return s, ln.Addr().String()
}

func (s *staller) serve(conn net.Conn) {
	defer conn.Close()
	var scanner resp.CommandScanner
	var buf []byte
	chunk := make([]byte, 64<<10)
	for {
		n, err := conn.Read(chunk)
		if err != nil {
			return
		}
		buf = append(buf, chunk[:n]...)
		for {
			end, err := scanner.Next(buf)
			if err != nil || end == 0 {
				break
			}
			var words []string
			for _, a := range scanner.Args() {
				words = append(words, string(a))
			}
			buf = buf[end:]
			if strings.Join(words, " ") == "GET large" {
				raw := resp.AppendBulk(nil, s.value)
				_, _ = conn.Write(raw[:len(raw)/2])
				close(s.stopped)
				<-s.goOn
				_, _ = conn.Write(raw[len(raw)/2:])
				continue
			}
			if strings.Join(words, " ") == "GET held" {
				s.held.Add(1)
				<-s.release
				s.held.Add(-1)
				_, _ = conn.Write([]byte("$4\r\nheld\r\n"))
				continue
			}
			reply := "-ERR unknown command\r\n"
			switch words[0] {
			case "SET":
				reply = "+OK\r\n"
			case "PING":
				reply = bulk(words[len(words)-1])
			case "MGET":
				s.mu.Lock()
				reply = "+shared\r\n"
				if s.small[conn] == 0 {
					reply = "+apart\r\n"
				}
				s.mu.Unlock()
			}
			if strings.Join(words, " ") == "GET small" {
				s.mu.Lock()
				s.small[conn]++
				s.mu.Unlock()
				reply = "$5\r\nsmall\r\n"
			}
			_, _ = conn.Write([]byte(reply))
		}
	}
}

// answer answers n of the reads that are held.
func (s *staller) answer(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case s.release <- struct{}{}:
		case <-time.After(patience):
			t.Fatal("no read is held")
		}
	}
}

// TestOthersGoAroundALargeReply: while a large reply comes on the connection that all share, the
// commands of others are answered, in their order. Afterwards they share the connection again.
func TestOthersGoAroundALargeReply(t *testing.T) {
	s, back := newStaller(t)
	_, addr := start(t, "redis://"+back)
	asks, other := dial(t, addr), dial(t, addr)
	other.want("$5\r\nsmall\r\n", "GET small")
	asks.sendQuietly("GET", "large")
	<-s.stopped
	for range 3 {
		other.want("$5\r\nsmall\r\n", "GET small")
		other.write("GET small\r\nPING a\r\nGET small\r\n")
		for _, want := range []string{"$5\r\nsmall\r\n", "$1\r\na\r\n", "$5\r\nsmall\r\n"} {
			if got := other.read(); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	}
	close(s.goOn)
	if got := quietly(asks); got != bulk(s.value) {
		t.Errorf("the large reply has %d bytes: %.100q", len(got), got)
	}
	counts := func() (shared, isolated int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, n := range s.small {
			shared, isolated = min(n, isolated), max(n, isolated)
		}
		return shared, isolated
	}
	if shared, isolated := counts(); shared != 1 || isolated != 9 {
		t.Errorf("GET small came %d times on the shared connection and %d times on another, want 1 and 9", shared, isolated)
	}
	eventually(t, "they share the connection again", func() bool {
		other.want("$5\r\nsmall\r\n", "GET small")
		shared, _ := counts()
		return shared == 2
	})
}

// TestLargeRepliesAreRationed: while a large reply holds up the shared connection, at most four reads
// of new clients are isolated at once. If others waited behind that reply for more than a second, this
// lasts longer. Clients that have had small replies only, and writes, don't wait.
func TestLargeRepliesAreRationed(t *testing.T) {
	const most, all = 4, 10
	s, back := newStaller(t)
	srv, addr := start(t, "redis://"+back)
	isolated := func(held, waiting int) func() bool {
		return func() bool {
			got := 0
			for _, u := range srv.Stats().Upstreams {
				got += u.IsolatedWaiting
			}
			return s.held.Load() == int64(held) && got == waiting
		}
	}
	known := dial(t, addr)
	for range 20 {
		known.want("$5\r\nsmall\r\n", "GET small")
	}
	asks := dial(t, addr)
	asks.write("GET large\r\nGET small\r\n") // the second waits behind the first
	<-s.stopped
	congested := time.Now()
	strangers := make([]*wire, all)
	for i := range strangers {
		strangers[i] = dial(t, addr)
		strangers[i].want("+OK\r\n", "SET k v")
		strangers[i].write("GET held\r\n")
		eventually(t, "it is sent, or waits", isolated(min(i+1, most), max(i+1-most, 0)))
	}
	known.want("$5\r\nsmall\r\n", "GET small")
	s.answer(t, most-1) // these leave their turns to the next
	eventually(t, "the next have their turns", isolated(most, all-most-(most-1)))
	eventually(t, "it has taken more than a second", func() bool { return time.Since(congested) > time.Second })
	close(s.goOn)
	if got := quietly(asks); got != bulk(s.value) {
		t.Errorf("the large reply has %d bytes: %.100q", len(got), got)
	}
	s.answer(t, all-(most-1))
	for i := range strangers {
		if got := strangers[i].read(); got != "$4\r\nheld\r\n" {
			t.Errorf("stranger %d: %q", i, got)
		}
	}
	for i := range most + 1 { // the shared connection has calmed down, but not for long
		strangers[i].write("GET held\r\n")
	}
	eventually(t, "one waits for its turn", isolated(most, 1))
	known.want("$5\r\nsmall\r\n", "GET small")
	s.answer(t, most+1)
}

// TestManyKeysOfAStrangerAreIsolated: nobody knows how large the reply is when a new client reads many
// keys at once, so it is isolated. Later the replies to the client tell, unless a very large reply
// came to anybody a short time ago.
func TestManyKeysOfAStrangerAreIsolated(t *testing.T) {
	s, back := newStaller(t)
	_, addr := start(t, "redis://"+back)
	w := dial(t, addr)
	w.want("$5\r\nsmall\r\n", "GET small")
	few, many := "MGET"+strings.Repeat(" k", 31), "MGET"+strings.Repeat(" k", 32)
	w.want("+shared\r\n", few)
	w.want("+apart\r\n", many)
	for range 20 {
		w.want("$5\r\nsmall\r\n", "GET small")
	}
	w.want("+shared\r\n", many)
	close(s.goOn)
	asks := dial(t, addr)
	asks.sendQuietly("GET", "large")
	if got := quietly(asks); got != bulk(s.value) {
		t.Errorf("the large reply has %d bytes", len(got))
	}
	w.want("+apart\r\n", many)
}

// TestStrangersAreIsolatedFromMany: while many commands are under way on the shared connection, what new
// clients read is isolated. So only so many of their replies, of unknown size, can fill it at once.
func TestStrangersAreIsolatedFromMany(t *testing.T) {
	const many = 600
	s, back := newStaller(t)
	srv, addr := start(t, "redis://"+back)
	known, stranger := dial(t, addr), dial(t, addr)
	for range many/2 + 1 {
		known.want("$5\r\nsmall\r\n", "GET small")
	}
	known.write(strings.Repeat("GET held\r\n", many))
	eventually(t, "they are under way", func() bool {
		under := uint64(0)
		for _, u := range srv.Stats().Upstreams {
			under += u.Requests - u.Responses
		}
		return under >= many
	})
	stranger.want("+apart\r\n", "MGET k")
	s.answer(t, many)
	for range many {
		if got := known.read(); got != "$4\r\nheld\r\n" {
			t.Fatalf("%.40q", got)
		}
	}
	eventually(t, "the last reply is counted", func() bool {
		stranger.write("MGET k\r\n")
		return stranger.read() == "+shared\r\n"
	})
}
