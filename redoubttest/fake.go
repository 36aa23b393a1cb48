package redoubttest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
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

// newFake starts one. It answers the commands that set up a connection, in RESP2 or in RESP3.
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
	r := bufio.NewReader(c)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, f.reply(args)); err != nil {
			return
		}
	}
}

func (f *fake) reply(args []string) string {
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

// maxArgs and maxArg bound what readCommand accepts.
const (
	maxArgs = 1 << 16
	maxArg  = 1 << 24
)

// readCommand reads one command as clients send them. It is not package resp's
// reader, because the suite imports nothing but the API that it tests.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*', maxArgs)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New("redoubttest: an empty command")
	}
	var args []string
	for range n {
		size, err := readLength(r, '$', maxArg)
		if err != nil {
			return nil, err
		}
		var arg strings.Builder
		if _, err := io.CopyN(&arg, r, int64(size)); err != nil {
			return nil, err
		}
		end, err := r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if string(end) != "\r\n" {
			return nil, fmt.Errorf("redoubttest: got %q after an argument", end)
		}
		args = append(args, arg.String())
	}
	return args, nil
}

func readLength(r *bufio.Reader, kind byte, most int) (int, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	text, ok := strings.CutSuffix(string(line[1:]), "\r\n")
	n, err := strconv.Atoi(text)
	if line[0] != kind || !ok || err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("redoubttest: got %q, want a length after %q", line, kind)
	}
	return n, nil
}
