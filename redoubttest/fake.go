package redoubttest

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redoubt-go/redoubt/resp"
)

// A fake is a server that answers as a test says: it is for replies that a real
// one can't be brought to give on demand.
type fake struct {
	listener net.Listener
	answer   func(args []string) (reply string) // RESP

	mu    sync.Mutex
	seen  []string // names of the commands answered by answer, in order
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

// newFake starts one. What clients say to set up a connection is answered
// already, in RESP2 or RESP3 as they ask for it.
func newFake(t *testing.T, answer func(args []string) string) *fake {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{listener: l, answer: answer, conns: make(map[net.Conn]struct{})}
	f.wg.Go(f.accept)
	t.Cleanup(f.close)
	return f
}

func (f *fake) addr() string { return f.listener.Addr().String() }

func (f *fake) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	for c := range f.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

func (f *fake) accept() {
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns[c] = struct{}{}
		f.mu.Unlock()
		f.wg.Go(func() { f.serve(c) })
	}
}

func (f *fake) serve(c net.Conn) {
	defer c.Close()
	var scanner resp.CommandScanner
	var buf []byte
	chunk := make([]byte, 4096)
	for {
		n, err := c.Read(chunk)
		if err != nil {
			return
		}
		buf = append(buf, chunk[:n]...)
		var replies []byte
		for len(buf) > 0 {
			n, err := scanner.Next(buf)
			if err != nil {
				return
			}
			if n == 0 {
				break // the rest is to come
			}
			if args := scanner.Args(); len(args) > 0 {
				replies = append(replies, f.reply(args)...)
			}
			buf = buf[n:]
		}
		if _, err := c.Write(replies); err != nil {
			return
		}
	}
}

func (f *fake) reply(raw [][]byte) string {
	args := make([]string, len(raw))
	for i, a := range raw {
		args[i] = string(a)
	}
	switch strings.ToUpper(args[0]) {
	case "HELLO":
		if len(args) > 1 && args[1] == "3" {
			return "%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n"
		}
		return "*6\r\n+server\r\n+redis\r\n+version\r\n+7.0.0\r\n+proto\r\n:2\r\n"
	case "CLIENT", "SELECT", "AUTH", "READONLY":
		return "+OK\r\n"
	case "PING":
		return "+PONG\r\n"
	case "INFO":
		return "$0\r\n\r\n"
	case "CLUSTER":
		return "-ERR This instance has cluster support disabled\r\n"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, strings.ToUpper(args[0]))
	return f.answer(args)
}

// count returns how often a command came.
func (f *fake) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, s := range f.seen {
		if s == name {
			n++
		}
	}
	return n
}
