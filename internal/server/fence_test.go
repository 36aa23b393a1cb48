package server_test

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/proxy"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

func TestFence(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		w, key := dial(t, addr), b.Prefix+"ledger"
		for _, protocol := range []string{"2", "3"} {
			_ = w.do("HELLO", protocol)
			null := map[string]string{"2": "$-1\r\n", "3": "_\r\n"}[protocol]
			name := key + protocol
			do := "FENCE.DO " + name + " "
			w.want(null, do+"7 GET "+name)
			w.want(bulk("OK"), "fence.do "+name+" 7 set "+name+" 100")
			w.want(bulk("100"), do+"7 GET "+name)
			w.want(":110\r\n", do+"8 INCRBY "+name+" 10")
			w.want("-STALE redoubt: the token is 7, and 8 has been seen\r\n", do+"7 SET "+name+" 0")
			w.want(bulk("110"), "GET "+name)
			w.want("+OK\r\n", do+"9")
			w.want("-STALE redoubt: the token is 8, and 9 has been seen\r\n", do+"8 GET "+name)
			w.want(":2\r\n", do+"9 RPUSH "+name+"l a b")
			w.want(array(bulk("a"), bulk("b")), do+"9 LRANGE "+name+"l 0 -1")
			w.want(":1\r\n", do+"9 HSET "+name+"h f x")
			w.want(array(bulk("x"), null), do+"9 HMGET "+name+"h f none")
			if got := w.do("FENCE.DO", name, "9", "LPOP", name); got != "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n" {
				t.Errorf("a command that fails: %q", got)
			}
			if got := w.do("FENCE.DO", name, "9", "SUBSCRIBE", name); !strings.Contains(got, "not allowed") {
				t.Errorf("a command that scripts can't run: %q", got)
			}
			w.want("+OK\r\n", "MULTI")
			w.want("+QUEUED\r\n", do+"10 SET "+name+" 5")
			w.want("+QUEUED\r\n", do+"9 SET "+name+" 6")
			w.want(array(bulk("OK"), "-STALE redoubt: the token is 9, and 10 has been seen\r\n"), "EXEC")
			w.want(bulk("10"), "GET rd:{"+name+"}:fence")
		}
	})
}

// A holder that is overtaken, with the locks of the same server.
func TestFenceOfALock(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		first, next, name := dial(t, addr), dial(t, addr), b.Prefix+"ledger"
		id, old := held(t, first.do("LOCK.ACQUIRE", name, "60000"))
		next.want(":1\r\n", "LOCK.RELEASE "+name+" "+id) // as if it had run out
		_, token := held(t, next.do("LOCK.ACQUIRE", name, "60000"))
		next.want(bulk("OK"), "FENCE.DO "+name+" "+itoa(int(token))+" SET "+name+" new")
		if got := first.do("FENCE.DO", name, itoa(int(old)), "SET", name, "late"); !strings.HasPrefix(got, "-STALE ") {
			t.Errorf("the late write: %q", got)
		}
		first.want(bulk("new"), "GET "+name)
	})
}

// TestPoolFence: in front of a pool all keys of the command have one server with the
// resource.
func TestPoolFence(t *testing.T) {
	p := startPool(t, 2, func(o *proxy.PoolOptions) { o.Tag = "{}" }) // a is on redis-1, and b on redis-2
	w := dial(t, p.addr)
	w.want(bulk("OK"), "FENCE.DO a 1 MSET a 1 {a}c 2")
	w.want(bulk("OK"), "FENCE.DO a 1 RENAME {a}c c")
	w.want(bulk("2"), "GET c")
	for command, want := range map[string]string{
		"MSET a 3 b 3": "-CROSSSLOT redoubt: the keys of FENCE.DO belong to several servers",
		"RENAME a b":   "-CROSSSLOT redoubt: the keys of FENCE.DO belong to several servers",
		"SET b 3":      "-CROSSSLOT redoubt: the keys of FENCE.DO belong to several servers",
		"FLUSHALL a":   "-ERR redoubt: FENCE.DO runs a command that has a key, which FLUSHALL has not",
		"FOO a":        "-ERR unknown command 'FOO'",
		"RENAME a":     "-ERR wrong number of arguments for 'rename' command",
	} {
		if got := w.do(append([]string{"FENCE.DO", "a", "1"}, strings.Fields(command)...)...); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	w.want(array(bulk("1"), "$-1\r\n"), "MGET a b")
}
