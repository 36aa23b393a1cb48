package goredis_test

import (
	"net"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// odd serves MGET of as many keys as it likes, and returns its address. answer says what to.
func odd(t *testing.T, answer func(keys int) []byte) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				var scanner resp.CommandScanner
				var buf []byte
				part := make([]byte, 4096)
				for {
					n, err := conn.Read(part)
					if err != nil {
						return
					}
					buf = append(buf, part[:n]...)
					for {
						end, err := scanner.Next(buf)
						if err != nil || end == 0 {
							break
						}
						reply := []byte("-ERR unknown command\r\n")
						if args := scanner.Args(); strings.EqualFold(string(args[0]), "MGET") {
							reply = answer(len(args) - 1)
						}
						if _, err := conn.Write(reply); err != nil {
							return
						}
						buf = buf[end:]
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// When the reply to a merged command has too few values, each command is sent by itself.
func TestMergeShortReply(t *testing.T) {
	addr := odd(t, func(int) []byte { return []byte("*1\r\n$1\r\nv\r\n") })
	for how, run := range pipelines(t, wrap(t, &redis.Options{Addr: addr, Protocol: 2})) {
		for i, r := range run([]redoubt.Cmd{mget("a"), mget("b"), mget("c")}) {
			if r.Err != nil || !reflect.DeepEqual(r.Val, []any{"v"}) {
				t.Errorf("%s, %d: got %v, %v", how, i, r.Val, r.Err)
			}
		}
	}
}

// While the server loads its data, a merged command waits like any other and is not split.
func TestMergeWhileLoading(t *testing.T) {
	var calls atomic.Int64
	addr := odd(t, func(keys int) []byte {
		switch calls.Add(1); {
		case keys != 2:
			return []byte("-ERR taken apart\r\n")
		case calls.Load() <= 2:
			return []byte("-LOADING Redis is loading the dataset in memory\r\n")
		}
		return []byte("*2\r\n$1\r\na\r\n$1\r\nb\r\n")
	})
	for how, run := range pipelines(t, wrap(t, &redis.Options{Addr: addr, Protocol: 2, MaxRetries: -1})) {
		calls.Store(0)
		for i, r := range run([]redoubt.Cmd{mget("a"), mget("b")}) {
			if r.Err != nil || !reflect.DeepEqual(r.Val, []any{[]string{"a", "b"}[i]}) {
				t.Errorf("%s, %d: got %v, %v", how, i, r.Val, r.Err)
			}
		}
		if n := calls.Load(); n != 3 {
			t.Errorf("%s: %d MGETs, want 3", how, n)
		}
	}
}
