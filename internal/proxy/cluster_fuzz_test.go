package proxy

import (
	"net"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/keyslot"
	"github.com/redoubt-go/redoubt/internal/resp"
)

// FuzzClusterSlots reads any reply as an answer to CLUSTER SLOTS. Each range is within the slots, and its address has
// a port.
func FuzzClusterSlots(f *testing.F) {
	f.Add([]byte("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:6379\r\n"))
	f.Add([]byte("*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$9\r\n127.0.0.1\r\n:6379\r\n"))
	f.Add([]byte("*1\r\n*3\r\n:-1\r\n:5\r\n*2\r\n$-1\r\n:6379\r\n"))
	f.Add([]byte("*1\r\n*3\r\n:7\r\n:5\r\n*1\r\n$1\r\n?\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, _, err := resp.Parse(raw)
		list, _ := v.([]any)
		if err != nil {
			return
		}
		for _, e := range list {
			r, ok := rangeOf(e, "127.0.0.1")
			if !ok {
				continue
			}
			if _, _, err := net.SplitHostPort(r.addr); err != nil || r.first < 0 || r.last >= keyslot.Count {
				t.Errorf("%v is the range %+v, %v", e, r, err)
			}
		}
	})
}

// FuzzRedirection reads any reply as MOVED or ASK.
func FuzzRedirection(f *testing.F) {
	f.Add("-MOVED 3999 127.0.0.1:6381\r\n")
	f.Add("-ASK 3999 :6381\r\n")
	f.Add("-ASK 3999 [::1]:6381\r\n")
	f.Add("-MOVED 3999 ::1:6381\r\n")
	f.Add("-MOVED 1\r\n")
	f.Add("-ASK 0 :]\r\n")
	f.Fuzz(func(t *testing.T, raw string) {
		addr, ask, ok := sentTo([]byte(raw), "10.0.0.1:6379")
		if !ok {
			return
		}
		if ask != strings.HasPrefix(raw, "-ASK ") {
			t.Errorf("%q: ask is %t", raw, ask)
		}
		if host, _, err := net.SplitHostPort(addr); err != nil || host == "" {
			t.Errorf("%q leads to %q: %v", raw, addr, err)
		}
	})
}
