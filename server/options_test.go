package server_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/server"
)

// patience is far more than any test here needs.
const patience = 30 * time.Second

// dial connects to a server of serve.
func dial(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "redis://"))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// want sends commands and reads as many bytes as the wanted replies have.
func want(t *testing.T, conn net.Conn, replies, commands string) {
	t.Helper()
	_, err := io.WriteString(conn, commands)
	must(t, err)
	got := make([]byte, len(replies))
	n, err := io.ReadFull(conn, got)
	if string(got[:n]) != replies {
		t.Fatalf("%q: %q, %v; want %q", commands, got[:n], err, replies)
	}
}

func TestPasswordAndUsername(t *testing.T) {
	url := serve(t, server.Options{Engine: newEngine(t), Username: "shop", Password: "secret"})
	conn := dial(t, url)
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	want(t, conn, "-NOAUTH Authentication required.\r\n", "PING\r\n")
	want(t, conn, wrong, "AUTH shop guess\r\n")
	want(t, conn, wrong, "AUTH default secret\r\n")
	want(t, conn, "+OK\r\n+PONG\r\n", "AUTH shop secret\r\nPING\r\n")
	want(t, dial(t, url), "+OK\r\n", "AUTH secret\r\n")
}

func TestPrefix(t *testing.T) {
	e, backend := newEngine(t), redistest.Start(t)
	inside, err := redoubt.New(e, redoubt.Options{})
	must(t, err)
	t.Cleanup(func() { _ = inside.Close() })
	for name, c := range map[string]struct {
		opts   server.Options
		direct *redoubt.Client
	}{
		"engine": {server.Options{Engine: e}, inside},
		"redis":  {server.Options{URL: backend.URL()}, connect(t, backend.URL())},
	} {
		c.opts.Prefix = "shop"
		served := connect(t, serve(t, c.opts))
		must(t, served.Do(t.Context(), redoubt.Cmd{Name: "LOCK.ACQUIRE", Args: []string{"orders:42", "600000"}}).Err)
		n, err := c.direct.Do(t.Context(), redoubt.Cmd{Name: "EXISTS", Keys: []string{"shop:{orders:42}:lock"}}).Int()
		if n != 1 || err != nil {
			t.Errorf("%s: %d, %v; want the lock's key to begin with the prefix", name, n, err)
		}
	}
}

func TestTLS(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(certified.Close)
	url := serve(t, server.Options{
		Engine: newEngine(t), TLS: &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12},
	})
	trusting := certified.Client().Transport.(*http.Transport).TLSClientConfig //nolint:forcetypeassert // as documented
	conn := tls.Client(dial(t, url), &tls.Config{RootCAs: trusting.RootCAs, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
	want(t, conn, "+PONG\r\n", "PING\r\n")

	plain := dial(t, url)
	_, err := io.WriteString(plain, "PING\r\n")
	must(t, err)
	if got, _ := io.ReadAll(plain); bytes.Contains(got, []byte("PONG")) {
		t.Errorf("plain text: %q, want no reply", got)
	}
}

func TestMaxClients(t *testing.T) {
	url := serve(t, server.Options{Engine: newEngine(t), MaxClients: 1})
	want(t, dial(t, url), "+PONG\r\n", "PING\r\n")
	want(t, dial(t, url), "-ERR max number of clients reached\r\n", "")
}

func TestMaxClientMemory(t *testing.T) {
	e := newEngine(t)
	conn := dial(t, serve(t, server.Options{Engine: e, MaxClientMemory: 1 << 20}))
	// The server may close the connection before it has read all of this.
	_, _ = io.WriteString(conn, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8388608\r\n"+strings.Repeat("v", 8<<20)+"\r\n")
	if got, _ := io.ReadAll(conn); bytes.Contains(got, []byte("OK")) {
		t.Errorf("%q, want the command refused", got)
	}
	if used := e.UsedMemory(); used > 1<<20 {
		t.Errorf("the engine keeps %d bytes", used)
	}
}

// A client that sends nothing is closed. Nothing else would close it.
func TestIdleTimeout(t *testing.T) {
	conn := dial(t, serve(t, server.Options{Engine: newEngine(t), IdleTimeout: 20 * time.Millisecond, WriteTimeout: time.Hour}))
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("%v, want the connection closed", err)
	}
}

// A client that takes no reply is closed. Nothing else would close it.
func TestWriteTimeout(t *testing.T) {
	e := newEngine(t)
	// The sockets of both sides hold less than this.
	must(t, e.Do(t.Context(), redoubt.Cmd{Name: "SET", Keys: []string{"large"}, Args: []string{strings.Repeat("v", 32<<20)}}).Err)
	url := serve(t, server.Options{Engine: e, IdleTimeout: time.Hour, WriteTimeout: 20 * time.Millisecond})
	observer, stuck := connect(t, url), dial(t, url)
	want(t, stuck, "+OK\r\n", "CLIENT SETNAME stuck\r\n")
	_, err := io.WriteString(stuck, "GET large\r\n")
	must(t, err)
	await.Soon(t, "the client is closed", func() bool {
		list, err := observer.Do(t.Context(), redoubt.Cmd{Name: "CLIENT", Args: []string{"LIST"}}).Text()
		must(t, err)
		return !strings.Contains(list, "name=stuck")
	})
}
