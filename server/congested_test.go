package server_test

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redoubt-go/redoubt/resp"
)

// A staller is a server behind that stops in the middle of a large reply.
type staller struct {
	value   string
	stopped chan struct{} // closed when half of the reply to GET large has left
	goOn    chan struct{}
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
	s = &staller{value: strings.Repeat("v", 48<<20), stopped: make(chan struct{}), goOn: make(chan struct{}), small: map[net.Conn]int{}}
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
			reply := "-ERR unknown command\r\n"
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
	other.want("$5\r\nsmall\r\n", "GET small")
	s.mu.Lock()
	defer s.mu.Unlock()
	var counts []int
	for _, n := range s.small {
		counts = append(counts, n)
	}
	if len(counts) != 2 || counts[0]+counts[1] != 11 || min(counts[0], counts[1]) != 2 {
		t.Errorf("GET small came %v times on the connections, want 2 times on the shared one and 9 on another", counts)
	}
}
