package server_test

import (
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// Hashes whose fields expire, by the commands and by the library together.
func TestTTLHash(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		_, addr := start(t, b.URL)
		name := b.Prefix + "sessions"
		a, o := dial(t, addr), dial(t, addr)
		_ = o.do("HELLO", "3")

		a.want("$-1\r\n", "TTLHASH.GET "+name+" ann")
		o.want("_\r\n", "TTLHASH.GET "+name+" ann")
		a.want(":0\r\n", "TTLHASH.SET "+name+" ann v 60000 XX")
		a.want(":1\r\n", "ttlhash.set "+name+" ann one 60000 nx")
		a.want(":0\r\n", "TTLHASH.SET "+name+" ann two 60000 NX")
		a.want(bulk("one"), "TTLHASH.GET "+name+" ann")
		a.want(":1\r\n", "TTLHASH.SET "+name+" bob two -1")
		a.want(array(bulk("one"), "$-1\r\n", bulk("two")), "TTLHASH.MGET "+name+" ann eve bob")
		a.want(":2\r\n", "TTLHASH.LEN "+name)

		v, ok := a.value("TTLHASH.TTL", name, "ann", "bob", "eve").([]any)
		if ok = ok && len(v) == 3 && v[1] == int64(-1) && v[2] == int64(-2); !ok || v[0].(int64) > 60000 || v[0].(int64) < 1000 {
			t.Errorf("TTLHASH.TTL: %#v", v)
		}
		a.want(":0\r\n", "TTLHASH.EXPIRE "+name+" ann 120000 LT")
		a.want(":1\r\n", "TTLHASH.EXPIRE "+name+" ann 120000 gt")
		a.want(":-2\r\n", "TTLHASH.EXPIRE "+name+" eve 120000")
		a.want(array(bulk("0"), array(bulk("bob"), bulk("two"))), "TTLHASH.SCAN "+name+" 0 MATCH b* COUNT 100")
		a.want(":1\r\n", "TTLHASH.DEL "+name+" bob eve")
		a.want(":0\r\n", "TTLHASH.SWEEP "+name)

		// An expired field is gone.
		a.want(":1\r\n", "TTLHASH.SET "+name+" short v 20")
		eventually(t, "it is over", func() bool { return a.do("TTLHASH.GET", name, "short") == "$-1\r\n" })
		a.want(array(bulk("0"), array(bulk("ann"), bulk("one"))), "TTLHASH.SCAN "+name+" 0")

		// Inside a transaction.
		a.want("+OK\r\n", "MULTI")
		a.want("+QUEUED\r\n", "TTLHASH.SET "+name+" tx v 60000")
		a.want("+QUEUED\r\n", "TTLHASH.GET "+name+" tx")
		a.want(array(":1\r\n", bulk("v")), "EXEC")

		if got := a.do("TTLHASH.SET", name, "\x00\r\n", "\xff\r\n", "1000000") + a.do("TTLHASH.GET", name, "\x00\r\n"); got != ":1\r\n"+bulk("\xff\r\n") {
			t.Errorf("a binary field: %q", got)
		}
		// Several large fields at once would hold up the server.
		for _, field := range []string{"l1", "l2", "l3"} {
			_ = a.do("TTLHASH.SET", name, field, strings.Repeat("x", 1<<20), "60000")
		}
		for _, words := range []string{"TTLHASH.MGET ", "TTLHASH.TTL "} {
			a.want("-ERR redoubt: these fields have more than 2 MiB together: ask for fewer\r\n", words+name+" l1 ann l2 l3")
			if got := a.do(strings.Fields(words + name + " l1 ann")...); !strings.HasPrefix(got, "*2\r\n") {
				t.Errorf("%s: %.100q", words, got)
			}
		}

		a.want(":1\r\n", "RPUSH rd:{"+b.Prefix+"list}:ttlhash x")
		for _, words := range [][]string{{"SET", "f", "v", "1000"}, {"GET", "f"}, {"LEN"}, {"DEL", "f"}, {"SCAN", "0"}} {
			call := append([]string{"TTLHASH." + words[0], b.Prefix + "list"}, words[1:]...)
			if got := a.do(call...); words[0] != "LEN" && !strings.Contains(got, "WRONGTYPE") {
				t.Errorf("another type: %s gives %q", words[0], got)
			}
		}
	})
}
