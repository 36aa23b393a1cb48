package poolfile_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/poolfile"
)

func TestOwnDirectives(t *testing.T) {
	f, err := poolfile.Parse("f", []byte(`a:
  listen: 127.0.0.1:1
  listen_tls_cert: front.crt
  listen_tls_key: front.key
  listen_tls_ca: clients.crt
  redis: true
  redis_auth: s3cret
  server_user: pool
  users:
   - alice wonder land
   - "bob builder"
   - user orders on >pw ~orders:* +@all -@dangerous
   - 'user hashed on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b +get' # a comment
  server_tls: true
  server_tls_ca: ca.crt
  server_tls_cert: proxy.crt
  server_tls_key: proxy.key
  server_tls_name: redis.internal
  servers:
   - 127.0.0.1:2:1
   - 127.0.0.1:3:1 other
  replicas:
   - 10.0.0.1:6380 127.0.0.1:2
   - ::1:6380 other
  timeouts:
   - EVALSHA 5000
   - queue.take 30
   - keys 0
`))
	if err != nil {
		t.Fatal(err)
	}
	p := f.Pools[0]
	if want := []string{`f:12: pool "a": user "orders" may run scripts, and the pool checks only the keys that these declare; -@scripting forbids scripts`}; !reflect.DeepEqual(f.Warnings, want) {
		t.Errorf("%q", f.Warnings)
	}
	if want := []poolfile.Replica{{"10.0.0.1:6380", "127.0.0.1:2", 23}, {"[::1]:6380", "other", 24}}; !reflect.DeepEqual(p.Replicas, want) {
		t.Errorf("%+v", p.Replicas)
	}
	if want := map[string]time.Duration{"evalsha": 5 * time.Second, "queue.take": 30 * time.Millisecond, "keys": -1}; !reflect.DeepEqual(p.Timeouts, want) {
		t.Errorf("%v", p.Timeouts)
	}
	if want := (poolfile.ListenTLS{Cert: "front.crt", Key: "front.key", CA: "clients.crt"}); p.ListenTLS != want {
		t.Errorf("%+v", p.ListenTLS)
	}
	if want := (poolfile.ServerTLS{Enabled: true, CA: "ca.crt", Cert: "proxy.crt", Key: "proxy.key", Name: "redis.internal"}); p.ServerTLS != want {
		t.Errorf("%+v", p.ServerTLS)
	}
	const sha = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
	if want := []poolfile.User{
		{"alice", "on #8994c06b1dce06c437430db4c0c2f150e80566c325a98e0c821ab075df276728 ~* &* +@all", 10},
		{"bob", "on #df6b07176a9b17cc4c9afc257bd404732e7d09b76436c7890f7b7be14e579794 ~* &* +@all", 11},
		{"orders", "on >pw ~orders:* +@all -@dangerous", 12},
		{"hashed", "on #" + sha + " +get", 13},
	}; !reflect.DeepEqual(p.Users, want) || p.ServerUser != "pool" {
		t.Errorf("%+v, %q", p.Users, p.ServerUser)
	}
}

func TestOwnDirectivesRefused(t *testing.T) {
	const servers = "  servers:\n   - 127.0.0.1:2:1\n"
	for _, c := range []struct{ text, want string }{
		{"  listen_tls_cert: x\n", `f:3: conf: directive "listen_tls_cert" needs listen_tls_key beside it`},
		{"  listen_tls_key: x\n", `f:3: conf: directive "listen_tls_key" needs listen_tls_cert beside it`},
		{"  listen_tls_ca: x\n", `f:3: conf: directive "listen_tls_ca" needs listen_tls_cert beside it`},
		{"  listen_tls_ca: ''\n", `f:3: conf: directive "listen_tls_ca" is empty`},
		{"  listen_also: 127.0.0.1:1\n", `want addresses, each after a dash`},
		{"  listen_also:\n   - 127.0.0.1:1\n", `f:3: conf: directive "listen_also" has an address twice, or has the one of listen: "127.0.0.1:1"`},
		{"  listen_also:\n   - 0.0.0.0:1\n", `f:3: conf: directive "listen_also" has an address twice, or has the one of listen: "0.0.0.0:1"`},
		{"  listen_also:\n   - 127.0.0.1\n", `f:4: conf: directive "listen_also" has an invalid "hostname:port" format string: "127.0.0.1"`},
		{"  listen_also:\n   - /s\n  listen_tls_cert: x\n  listen_tls_key: x\n", `f:5: conf: directive "listen_tls_cert" needs listen and listen_also with "hostname:port" beside it`},
		{"  aclfile: x\n", `f:3: conf: directive "aclfile" needs redis: true beside it`},
		{"  redis: true\n  users:\n   - a b\n  aclfile: x\n", `f:6: conf: directive "users" and directive "aclfile" exclude each other`},
		{"  server_tls: yes\n", `f:3: conf: directive "server_tls" is not "true" or "false"`},
		{"  server_tls_ca: x\n", `f:3: conf: directive "server_tls_ca" needs server_tls: true beside it`},
		{"  server_tls: true\n  server_tls_cert: x\n", `f:4: conf: directive "server_tls_cert" needs server_tls_key beside it`},
		{"  redis: true\n  server_user: x\n", `f:4: conf: directive "server_user" needs redis_auth beside it`},
		{"  users:\n   - a b\n", `f:3: conf: directive "users" needs redis: true beside it`},
		{"  redis: true\n  users:\n   - hush\n", `f:5: conf: directive "users" has an invalid "name password" or "user name rules" format string`},
		{"  redis: true\n  users:\n   - user hush\n", `f:5: conf: directive "users" has "user" and only a name; want`},
		{"  redis: true\n  users:\n   - a b\n   - user c on hush +nosuch\n", `f:6: conf: directive "users" has the user "c": rule 2 is unknown; want one of`},
		{"  redis: true\n  users:\n   - user c on hush +nosuch\n", `rule 3 is "+nosuch", and there is no such command`},
		{"  redis: true\n  users:\n   - user c on (hush)\n", `rule 2 is a selector whose rule 1 is unknown; want one of on, off, `},
		{"  redis: true\n  users:\n   - user c on +@all #hush -@dangerous\n", `f:5: conf: directive "users" has a user with a rule that begins with #`},
		{"  redis: true\n  users:\n   - a b\n   - a c\n", `f:6: conf: pool "a" has users with same name "a"`},
		{"  replicas:\n   - 1.1.1.1:1 127.0.0.1:2\n", `f:3: conf: directive "replicas" needs redis: true beside it`},
		{"  redis: true\n  replicas:\n   - 1.1.1.1:1 b\n", `f:5: conf: directive "replicas" has a replica of "b", but pool "a" has no such server`},
		{"  redis: true\n  replicas:\n   - 1.1.1.1 b\n", `f:5: conf: directive "replicas" has an invalid "hostname:port name" format string`},
		{"  redis: true\n  replicas:\n   - a:1 b\n   - a:1 b\n", `f:6: conf: directive "replicas" has "a:1 b" twice`},
		{"  redis: true\n  redis_auth: x\n  users:\n   - default y\n", `f:5: conf: directive "users" has the user "default", but directive "redis_auth" sets the password of that user`},
		{"  timeouts:\n   - get 5\n", `f:3: conf: directive "timeouts" needs redis: true beside it`},
		{"  redis: true\n  timeouts:\n   - get\n", `f:5: conf: directive "timeouts" has an invalid "command milliseconds" format string: "get"`},
		{"  redis: true\n  timeouts:\n   - get 5s\n", `f:5: conf: directive "timeouts" has an invalid "command milliseconds" format string: "get 5s"`},
		{"  redis: true\n  timeouts:\n   - nosuch 5\n", `f:5: conf: directive "timeouts" has the unknown command "nosuch"`},
		{"  redis: true\n  timeouts:\n   - get 5\n   - GET 6\n", `f:6: conf: directive "timeouts" has "get" twice`},
		{"  redis: true\n  users: a\n", `f:4: conf: found a single value; want users, each after a dash`},
	} {
		_, err := poolfile.Parse("f", []byte("a:\n  listen: 127.0.0.1:1\n"+c.text+servers))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v\nwant %s", c.text, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("a password in %v", err)
		}
	}
	_, err := poolfile.Parse("f", []byte("a:\n  listen: /tmp/s\n  listen_tls_cert: x\n  listen_tls_key: x\n  server_tls: true\n  servers:\n   - /tmp/t:1\n"))
	for _, want := range []string{`f:3: conf: directive "listen_tls_cert" needs listen and listen_also with "hostname:port" beside it`, `f:7: conf: server "/tmp/t:" is a unix socket`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}
