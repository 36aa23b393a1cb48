package poolhost

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/certtest"
	"github.com/redoubt-go/redoubt/internal/test/memcachedtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
)

// TestPoolTLS: TLS with clients, which need a certificate and a user of the pool, and with a real server, which
// needs a certificate and a user too. A reload uses new certificates.
func TestPoolTLS(t *testing.T) {
	ours, others := certtest.New(t), certtest.New(t)
	for _, name := range []string{"server", "front", "proxy", "user"} {
		ours.Sign(name)
	}
	others.Sign("user")
	encrypted := freeAddr(t)
	_, port, _ := net.SplitHostPort(encrypted)
	srv := redistest.Start(t, "--tls-port", port, "--tls-cert-file", ours.File("server.crt"),
		"--tls-key-file", ours.File("server.key"), "--tls-ca-cert-file", ours.File("ca.crt"))
	srv.CLI("ACL", "SETUSER", "pool", "on", ">s3cret", "~*", "+@all")
	addr := freeAddr(t)
	conf := fmt.Sprintf(`secure:
  listen: %s
  listen_tls_cert: %s
  listen_tls_key: %s
  listen_tls_ca: %s
  redis: true
  redis_auth: s3cret
  server_user: pool
  users:
   - alice wonder land
   - bob builder
  server_tls: true
  server_tls_ca: %s
  server_tls_cert: %s
  server_tls_key: %s
  servers:
   - %s:1 redis-1
`, addr, ours.File("front.crt"), ours.File("front.key"), ours.File("ca.crt"),
		ours.File("ca.crt"), ours.File("proxy.crt"), ours.File("proxy.key"), encrypted)
	s := serve(t, conf)

	open := func(user, password string, cfg *tls.Config) *redis.Client {
		c := redis.NewClient(&redis.Options{
			Addr: addr, Username: user, Password: password, TLSConfig: cfg, PoolSize: 1, MaxRetries: -1,
			DialTimeout: time.Minute, ReadTimeout: time.Minute,
		})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	alice := open("alice", "wonder land", ours.Client("user"))
	if err := alice.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := srv.CLI("GET", "k"); got != "v" {
		t.Errorf("the server has %q", got)
	}
	if list := srv.CLI("CLIENT", "LIST"); !strings.Contains(list, "user=pool ") {
		t.Errorf("at the server: %s", list)
	}
	if list, err := alice.ClientList(t.Context()).Result(); err != nil || !strings.Contains(list, "user=alice ") {
		t.Errorf("at the pool: %s, %v", list, err)
	}
	for name, c := range map[string]*redis.Client{
		"bob": open("bob", "builder", ours.Client("user")), "the default user": open("", "s3cret", ours.Client("user")),
	} {
		if got, err := c.Get(t.Context(), "k").Result(); got != "v" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, c := range map[string]struct {
		client *redis.Client
		want   string
		closed bool
	}{
		"another's password": {open("bob", "wonder land", ours.Client("user")), "WRONGPASS", false},
		"nobody":             {open("eve", "s3cret", ours.Client("user")), "WRONGPASS", false},
		"no password":        {open("", "", ours.Client("user")), "NOAUTH", false},
		"no certificate":     {open("alice", "wonder land", ours.Client("")), "certificate required", true},
		"another authority":  {open("alice", "wonder land", &tls.Config{RootCAs: ours.Client("").RootCAs, Certificates: others.Client("user").Certificates, MinVersion: tls.VersionTLS12}), "unknown certificate authority", true},
		"plain text":         {open("alice", "wonder land", nil), "EOF", true},
	} {
		err := c.client.Get(t.Context(), "k").Err()
		// A refused client may find its connection reset before it reads the reason.
		if c.closed && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}

	connections := func() (ids []string) {
		for line := range strings.Lines(srv.CLI("CLIENT", "LIST", "TYPE", "normal")) {
			id, _, _ := strings.Cut(line, " ")
			ids = append(ids, id)
		}
		return ids
	}
	connection := func() string { return connections()[0] } // the oldest

	// The pool does not use a server whose certificate it does not trust, until it trusts the authority.
	former := connections()
	s.reload(t, strings.ReplaceAll(conf, "server_tls_ca: "+ours.Dir(), "server_tls_ca: "+others.Dir()), "changed a pool")
	eventually(t, "an error", func() bool {
		err := alice.Get(t.Context(), "k").Err()
		return err != nil && strings.Contains(err.Error(), "unknown authority")
	})
	s.reload(t, conf, "changed a pool")
	eventually(t, "a reply", func() bool { return alice.Get(t.Context(), "k").Val() == "v" })
	eventually(t, "the former connections are closed", func() bool {
		return !slices.ContainsFunc(connections(), func(id string) bool { return slices.Contains(former, id) })
	})

	// A reload without changes keeps the connections to the servers. A renewed client certificate under the
	// same name replaces them.
	before, changes := connection(), strings.Count(s.log.String(), "changed a pool")
	s.reload(t, "# nothing new\n"+conf, "reloaded the file of pools")
	if n := strings.Count(s.log.String(), "changed a pool"); n != changes || connection() != before {
		t.Errorf("%d changes and the connection %s, want %d and %s", n, connection(), changes, before)
	}
	ours.Sign("proxy")
	s.reload(t, conf, "changed a pool")
	eventually(t, "the connection is another", func() bool { return alice.Get(t.Context(), "k").Val() == "v" && connection() != before })

	// New clients see a renewed certificate. A certificate that can't be read changes nothing.
	renewed := ours.Sign("front")
	s.reload(t, conf, "reloaded the file of pools")
	conn, err := (&tls.Dialer{Config: ours.Client("user")}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if got := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber; got.Cmp(renewed.SerialNumber) != 0 {
		t.Errorf("the certificate shown is number %v, want %v", got, renewed.SerialNumber)
	}
	if err := os.Remove(ours.File("front.key")); err != nil {
		t.Fatal(err)
	}
	s.reload(t, conf, "reload failed")
	if got, err := alice.Get(t.Context(), "k").Result(); got != "v" || err != nil {
		t.Errorf("a client from before: %q, %v", got, err)
	}
	if _, err := Read(s.file, ""); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), `:1: pool "secure": listen_tls_cert, listen_tls_key, listen_tls_ca: open `) {
		t.Errorf("reading the file again: %v", err)
	}
}

// TestMemcachedPoolTLS: TLS with the clients and servers of a pool of memcached.
func TestMemcachedPoolTLS(t *testing.T) {
	ours := certtest.New(t)
	for _, name := range []string{"server", "front"} {
		ours.Sign(name)
	}
	srv := memcachedtest.Start(t, "-Z", "-o", "ssl_chain_cert="+ours.File("server.crt"), "-o", "ssl_key="+ours.File("server.key"))
	addr := freeAddr(t)
	serve(t, fmt.Sprintf(`cache:
  listen: %s
  listen_tls_cert: %s
  listen_tls_key: %s
  client_connections: 1
  server_tls: true
  server_tls_ca: %s
  servers:
   - %s:1 server-1
`, addr, ours.File("front.crt"), ours.File("front.key"), ours.File("ca.crt"), srv.Addr()))
	conn, err := (&tls.Dialer{Config: ours.Client("")}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	u := &rawClient{t, conn, bufio.NewReader(conn)}
	refused, err := (&tls.Dialer{Config: ours.Client("")}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = refused.Close() }()
	_ = refused.SetDeadline(time.Now().Add(time.Minute))
	if got, err := io.ReadAll(refused); string(got) != "ERROR Too many open connections\r\n" {
		t.Errorf("the second client: %q, %v", got, err)
	}
	value := strings.Repeat("v", 1000<<10)
	if got := u.ask(fmt.Sprintf("set k 0 0 %d\r\n%s", len(value), value)); got != "STORED" {
		t.Fatal(got)
	}
	if got := u.ask("get k"); got != fmt.Sprintf("VALUE k 0 %d", len(value)) {
		t.Error(got)
	}
	if got := u.line(); got != value {
		t.Errorf("%d bytes", len(got))
	}
}
