package server_test

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

// A flickerer is a back end that closes a connection in place of an answer to HELLO or INFO, once it
// is told to.
type flickerer struct{ hello, info atomic.Bool }

func (f *flickerer) serve(conn net.Conn) {
	defer conn.Close()
	var scanner resp.CommandScanner
	var buf []byte
	chunk := make([]byte, 4096)
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
			reply := "-ERR unknown command\r\n"
			switch words[0] {
			case "HELLO":
				if len(words) == 1 && f.hello.Load() {
					return
				}
				reply = "%2\r\n" + bulk("server") + bulk("flickerer") + bulk("version") + bulk("1.2.3")
			case "INFO":
				if f.info.Load() {
					return
				}
				reply = bulk("redis_version:4.5.6\r\n")
			}
			if _, err := conn.Write([]byte(reply)); err != nil {
				return
			}
		}
	}
}

// TestHelloOutlivesAConnection: when the connection is lost before the reply to HELLO, clients get the
// last answer, not one that is made of INFO.
func TestHelloOutlivesAConnection(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	f := &flickerer{}
	go func() {
		for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
			go f.serve(conn)
		}
	}()
	_, addr := start(t, "redis://"+ln.Addr().String())
	hello := func() string { return dial(t, addr).do("HELLO", "3") }
	await.Soon(t, "the first answer is the server's", func() bool { return strings.Contains(hello(), "1.2.3") })
	for _, lost := range []*atomic.Bool{&f.hello, &f.info} {
		lost.Store(true)
		for range 3 {
			if got := hello(); !strings.Contains(got, "flickerer") || !strings.Contains(got, "1.2.3") {
				t.Errorf("HELLO is lost, INFO is lost: %t: %q, want the last answer", f.info.Load(), got)
			}
		}
	}
}
