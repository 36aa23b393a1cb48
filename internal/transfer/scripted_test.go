package transfer

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/rdb"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// A scripted server answers with the result of a function, and closes the connection at "".
type scripted func(args []string) string

func (scripted) Name() string { return "scripted" }

func (s scripted) Open(context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		var scan resp.CommandScanner
		var buf []byte
		chunk := make([]byte, 4096)
		for {
			n, err := scan.Next(buf)
			if err != nil {
				return
			}
			if n == 0 {
				m, err := there.Read(chunk)
				if err != nil {
					return
				}
				buf = append(buf, chunk[:m]...)
				continue
			}
			var args []string
			for _, a := range scan.Args() {
				args = append(args, string(a))
			}
			buf = buf[n:]
			reply := s(args)
			if reply == "" {
				return
			}
			if _, err := there.Write([]byte(reply)); err != nil {
				return
			}
		}
	}()
	return here, nil
}

func (s scripted) server(t *testing.T) *Server {
	t.Helper()
	server, err := NewServer(t.Context(), s, AnyDatabase)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

func bulk(s string) string { return string(resp.AppendBulk(nil, s)) }

// Keys that were sent without an answer are counted as unknown.
func TestTargetHangsUp(t *testing.T) {
	answers := 2
	target := scripted(func(args []string) string {
		switch args[0] {
		case "INFO":
			return bulk("redis_version:7.0.15\r\n# Keyspace\r\n")
		case "RESTORE":
			if answers--; answers < 0 {
				return ""
			}
		}
		return "+OK\r\n"
	}).server(t)
	from := &stalling{[]rdb.Entry{entry("a", "1", 0), entry("b", "2", 0), entry("c", "3", 0), entry("d", "4", 0), entry("e", "5", -time.Hour)}}
	result, err := Move(t.Context(), from, target, Options{})
	if err == nil || !strings.Contains(err.Error(), "closed") || result.Keys != 2 || result.Unknown != 2 || result.Expired != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// A key that SCAN returns twice arrives once, a deleted key is counted, and the move uses PTTL on a server
// without PEXPIRETIME, like Redis 6.2.
func TestOldServer(t *testing.T) {
	payload := bulk(string(entry("", "v", 0).Payload))
	answers := map[string]string{
		"PTTL a": ":-1\r\n", "PTTL b": ":90000\r\n", "PTTL gone": ":-2\r\n", "DUMP a": payload, "DUMP b": payload, "DUMP gone": "$-1\r\n",
	}
	var queue []string
	from := scripted(func(args []string) string {
		switch command := strings.Join(args[:min(2, len(args))], " "); command {
		case "MULTI":
			queue = nil
			return "+OK\r\n"
		case "EXEC":
			reply := fmt.Sprintf("*%d\r\n", len(queue))
			for _, q := range queue {
				reply += answers[q]
			}
			return reply
		case "PTTL a", "PTTL b", "PTTL gone", "DUMP a", "DUMP b", "DUMP gone":
			queue = append(queue, command)
			return "+QUEUED\r\n"
		case "INFO":
			return bulk("redis_version:6.2.14\r\n# Keyspace\r\ndb0:keys=3,expires=1,avg_ttl=0\r\n")
		case "SELECT 0":
			return "+OK\r\n"
		case "SCAN 0":
			return "*2\r\n$1\r\n7\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"
		case "SCAN 7":
			return "*2\r\n$1\r\n0\r\n*2\r\n$4\r\ngone\r\n$1\r\na\r\n"
		case "TYPE a", "TYPE b", "TYPE gone":
			return "+string\r\n"
		}
		return "-ERR unknown command\r\n"
	}).server(t)
	to := startEngine(t)
	result := mustMove(t, from, to.server(AnyDatabase), Options{}, 2)
	if left, _ := to.must("PTTL", "b").(int64); result.Gone != 1 || left < 60_000 || left > 90_000 || to.must("PTTL", "a") != int64(-1) {
		t.Errorf("%+v, b has %d ms left", result, left)
	}
}
