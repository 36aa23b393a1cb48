package proxy_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/redoubt-go/redoubt/internal/proxy"
)

// TestDeadBackend: a server that dies with its machine counts as gone within a bounded time,
// also while it owes replies, and behind TLS.
func TestDeadBackend(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler()) // anything that can be connected to
	defer plain.Close()
	encrypted := httptest.NewTLSServer(http.NotFoundHandler())
	defer encrypted.Close()
	config := encrypted.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com"
	for _, b := range []*proxy.Redis{
		{Addr: plain.Listener.Addr().String()},
		{Addr: encrypted.Listener.Addr().String(), TLS: config},
	} {
		conn, err := b.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if tc, ok := conn.(*tls.Conn); ok {
			conn = tc.NetConn()
		}
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		option := func(level, name int) (value int) {
			cerr := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, name) })
			if cerr != nil || err != nil {
				t.Fatal(cerr, err)
			}
			return value
		}
		if ms := option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); ms < 10_000 || ms > 60_000 {
			t.Errorf("unacknowledged bytes may wait for %d ms", ms)
		}
		if option(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE) == 0 || option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE) > 30 {
			t.Error("a silent connection is not proven")
		}
	}
}
