package server_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/randtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// FuzzSession sends random bytes from one client. The server must survive, and
// another client's replies must not change.
func FuzzSession(f *testing.F) {
	for _, s := range []string{
		"PING\r\n", "*1\r\n$4\r\nPING\r\n", "MULTI\r\nLOCK.RELEASE a b\r\nEXEC\r\n",
		"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\nUNSUBSCRIBE\r\nGET x\r\n", "HELLO 3\r\nWATCH a\r\nSELECT 4\r\nRESET\r\n",
		"CLIENT REPLY SKIP\r\nGET a\r\nCLIENT REPLY OFF\r\nGET b\r\nCLIENT REPLY ON\r\n", "MONITOR\r\nPING\r\n",
		"COMMAND INFO lock.info\r\nMULTI\r\nCOMMAND DOCS get\r\nSYNC\r\nEXEC\r\n", "CLIENT TRACKING ON\r\nGET a\r\n",
		"LOCK.ACQUIRE a 10 BLOCK 1\r\nQUIT\r\n", "*-1\r\n*0\r\n\r\n*1\r\n$-1\r\n", "PSUBSCRIBE a b\r\nHELLO 3\r\nPING\r\nPUNSUBSCRIBE\r\nECHO a\r\n",
	} {
		f.Add([]byte(s))
	}
	backend := redistest.Start(f)
	srv, addr := start(f, backend.URL())
	witness := dial(f, addr)
	n := 0
	f.Fuzz(func(t *testing.T, input []byte) {
		for _, harmful := range []string{"SHUTDOWN", "DEBUG", "PAUSE", "FLUSH", "REPLICAOF", "SLAVEOF", "CONFIG", "FAILOVER", "MIGRATE", "CLIENT KILL", "KILL", "EVAL", "BGSAVE", "SAVE", "ACL", "MODULE", "SWAPDB"} {
			if bytes.Contains(bytes.ToUpper(input), []byte(harmful)) {
				return // it would do what it says
			}
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		defer randtest.Command(t, func() string { return strconv.Quote(string(input)) })()
		n++
		witness.tb = t
		text := strconv.Itoa(n)
		witness.send("SET", "witness", text)
		_, _ = conn.Write(input)
		witness.send("GET", "witness")
		witness.send("ECHO", text)
		witness.expect("+OK\r\n")
		witness.expect(bulk(text))
		witness.expect(bulk(text))
		_ = conn.(*net.TCPConn).CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, conn); err != nil {
			if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
				t.Fatal("the session hangs")
			}
		}
		if p := srv.Stats().Panics; p != 0 {
			t.Fatalf("%d panics", p)
		}
	})
}
