package poolfile_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/redoubt-go/redoubt/internal/poolfile"
)

func TestSentinels(t *testing.T) {
	f, err := poolfile.Parse("f", []byte(`a:
  listen: 127.0.0.1:1
  redis: true
  auto_eject_hosts: true
  server_tls_ca: ca.crt
  sentinels:
   - 10.0.3.1:26379
   - ::1:26379
  sentinel_user: pool
  sentinel_password: s3cret
  sentinel_tls: true
  sentinel_masters:
   - orders 127.0.0.1:2
  servers:
   - 127.0.0.1:2:1
   - 127.0.0.1:3:1 other
  replicas: sentinel
`))
	if err != nil {
		t.Fatal(err)
	}
	p := f.Pools[0]
	want := poolfile.Sentinel{
		Addresses: []string{"10.0.3.1:26379", "[::1]:26379"}, Masters: []poolfile.Master{{Name: "orders", Of: "127.0.0.1:2", Line: 13}},
		User: "pool", Password: "s3cret", TLS: true, Replicas: true,
	}
	if !reflect.DeepEqual(p.Sentinel, want) {
		t.Errorf("%+v", p.Sentinel)
	}
	if one, two := p.MasterOf("127.0.0.1:2"), p.MasterOf("other"); one != "orders" || two != "other" {
		t.Errorf("the masters are %q and %q", one, two)
	}
	if len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], `f:4: pool "a": with auto_eject_hosts, keys may go to other servers`) {
		t.Errorf("warnings: %q", f.Warnings)
	}
}

func TestSentinelsRefused(t *testing.T) {
	const sentinels = "  sentinels:\n   - a:1\n"
	for _, c := range []struct{ text, want string }{
		{sentinels, `f:3: conf: directive "sentinels" needs redis: true beside it`},
		{"  redis: true\n  sentinels:\n   - a\n", `f:5: conf: directive "sentinels" has an invalid "hostname:port" format string: "a"`},
		{"  redis: true\n" + sentinels + "   - a:1\n", `f:6: conf: directive "sentinels" has "a:1" twice`},
		{"  redis: true\n  sentinel_password: x\n", `f:4: conf: directive "sentinel_password" needs sentinels beside it`},
		{"  redis: true\n  sentinel_masters:\n   - m b\n", `f:4: conf: directive "sentinel_masters" needs sentinels beside it`},
		{"  redis: true\n" + sentinels + "  sentinel_user: x\n", `f:6: conf: directive "sentinel_user" needs sentinel_password beside it`},
		{"  redis: true\n" + sentinels + "  sentinel_tls: maybe\n", `f:6: conf: directive "sentinel_tls" is not "true" or "false"`},
		{"  redis: true\n" + sentinels + "  sentinel_masters:\n   - m\n", `f:7: conf: directive "sentinel_masters" has an invalid "master name" format string`},
		{"  redis: true\n" + sentinels + "  sentinel_masters:\n   - m:1 b\n", `f:7: conf: directive "sentinel_masters" has an invalid "master name" format string`},
		{"  redis: true\n" + sentinels + "  sentinel_masters:\n   - m b\n   - m c\n", `f:8: conf: directive "sentinel_masters" has the master or the server of "m c" twice`},
		{"  redis: true\n" + sentinels + "  sentinel_masters:\n   - m d\n", `f:7: conf: directive "sentinel_masters" has a master for "d", but pool "a" has no such server`},
		{"  redis: true\n" + sentinels + "  sentinel_masters:\n   - b c\n", `f:10: conf: servers "b" and "c" are the same master "b"`},
		{"  redis: true\n  replicas: sentinel\n", `f:4: conf: directive "replicas" needs sentinels beside it`},
		{"  redis: true\n  replicas: sentinels\n", `f:4: conf: found a single value; want replicas, each after a dash, or "sentinel"`},
	} {
		_, err := poolfile.Parse("f", []byte("a:\n  listen: 127.0.0.1:1\n"+c.text+"  servers:\n   - 127.0.0.1:2:1 b\n   - 127.0.0.1:3:1 c\n"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v\nwant %s", c.text, err, c.want)
		}
	}
	_, err := poolfile.Parse("f", []byte("a:\n  listen: 127.0.0.1:1\n  redis: true\n"+sentinels+"  servers:\n   - 127.0.0.1:2:1\n"))
	if want := `f:7: conf: "127.0.0.1:2" can't be the name of a master: name its master in directive "sentinel_masters"`; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}
