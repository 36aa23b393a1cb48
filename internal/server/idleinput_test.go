package server_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/resp"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// TestIdleClientsKeepNoInput: once a large command has its reply, its client holds no memory for it, whatever the
// command was.
func TestIdleClientsKeepNoInput(t *testing.T) {
	slow.Test(t, "it collects garbage again and again")
	each(t, func(t *testing.T, backend redistest.Backend) {
		_, addr := start(t, backend.URL)
		idleAfterLarge(t, addr)
	})
	t.Run("pool", func(t *testing.T) {
		p, opts := poolServers(t, 1)
		p.serve(t, opts)
		idleAfterLarge(t, p.addr)
	})
}

func idleAfterLarge(t *testing.T, addr string) {
	const size, clients = 5 << 18, 6
	large := strings.Repeat("v", size)
	for _, c := range []struct {
		name     string
		commands [][]string
	}{
		{"PING", [][]string{{"PING", large}}},
		{"DEL, of many", [][]string{append([]string{"DEL"}, slices.Repeat([]string{"k"}, 1<<16)...)}},
		{"COMMAND INFO, of many", [][]string{append([]string{"COMMAND", "INFO"}, slices.Repeat([]string{"k"}, 1<<16)...)}},
		{"ECHO", [][]string{{"ECHO", large}}},
		{"AUTH", [][]string{{"AUTH", large}}},
		{"HELLO", [][]string{{"HELLO", "3", "AUTH", "default", large}}},
		{"SELECT", [][]string{{"SELECT", large}}},
		{"CLIENT SETNAME", [][]string{{"CLIENT", "SETNAME", large}}},
		{"CLIENT SETINFO", [][]string{{"CLIENT", "SETINFO", "lib-name", large}}},
		{"CLIENT REPLY", [][]string{{"CLIENT", "REPLY", large}}},
		{"COMMAND", [][]string{{"COMMAND", "GETKEYS", "LOCK.RELEASE", large, "id"}}},
		{"COMMAND INFO", [][]string{{"COMMAND", "INFO", large}}},
		{"SET", [][]string{{"SET", "k", large}}},
		{"GET", [][]string{{"GET", "k"}}},
		{"GET, with", [][]string{{"GET", large}}},
		{"SETEX", [][]string{{"SETEX", "k", "x", large}}},
		{"MSET", [][]string{{"MSET", "k", large, "k2", "v"}}},
		{"EVAL", [][]string{{"EVAL", "return ARGV[1]", "1", "k", large}}},
		{"EVALSHA", [][]string{{"EVALSHA", large, "1", "k"}}},
		{"PUBLISH", [][]string{{"PUBLISH", "c", large}}},
		{"MULTI", [][]string{{"MULTI"}, {"SET", "k", large}, {"EXEC"}}},
		{"MULTI, in vain", [][]string{{"MULTI"}, {"SET", "k", large}, {"DISCARD"}}},
		{"WATCH", [][]string{{"WATCH", large}, {"UNWATCH"}}},
		{"LOCK.ACQUIRE", [][]string{{"LOCK.ACQUIRE", large, "1000"}}},
		{"BLPOP", [][]string{{"RPUSH", "l", "e"}, {"BLPOP", large, "l", "0"}}},
		{"unknown", [][]string{{large}, {"NOCOMMAND", large}}},
	} {
		before := liveHeap()
		for range clients {
			w := dial(t, addr)
			for _, args := range c.commands {
				w.write(string(resp.AppendCommand(nil, args...)))
				w.read()
			}
		}
		// The last of them may be in a buffer that others use too.
		eventually(t, c.name+": the memory of idle clients", func() bool {
			held := liveHeap() - before
			if held < clients*size/4 {
				return true
			}
			t.Logf("%s: %d KiB are held", c.name, held>>10)
			return false
		})
	}
}

// liveHeap returns how many bytes are reachable.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what a pool held at first
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // positive
}
