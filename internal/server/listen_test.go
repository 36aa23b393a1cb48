package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/server"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/servertest"
)

func TestExposedListener(t *testing.T) {
	backend := redistest.Start(t)
	srv, _ := start(t, backend.URL())
	for _, address := range []string{"0.0.0.0:0", ":0"} {
		if l, err := srv.Listen("tcp", address); !errors.Is(err, server.ErrExposed) {
			t.Errorf("%s: %v, want ErrExposed", address, err)
			if l != nil {
				_ = l.Close()
			}
		}
	}
	guarded, _ := start(t, backend.URL(), withPassword)
	l, err := guarded.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestUnixSocket(t *testing.T) {
	backend := redistest.Start(t)
	srv, _ := start(t, backend.URL())
	path := filepath.Join(t.TempDir(), "s")
	// The socket of a killed process is no obstacle.
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = stale.Close()
	l, err := srv.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	servertest.ServeOn(t, srv, l)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	w := &wire{tb: t, conn: conn}
	w.want("+OK\r\n", "SET k v")
	w.want(bulk("v"), "GET k")
	if other, err := srv.Listen("unix", path); err == nil {
		_ = other.Close()
		t.Error("a socket in use was taken over")
	}
}

func TestTLS(t *testing.T) {
	backend := redistest.Start(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	srv, addr := start(t, backend.URL(), func(o *server.Options) {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	})
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w := &wire{tb: t, conn: conn}
	big := strings.Repeat("x", 1<<20)
	w.want("+OK\r\n", "SET big "+big)
	w.want(bulk(big), "GET big")
	// A client that waits is watched over TLS too.
	w.send("LOCK.ACQUIRE", "l", "60000", "BLOCK", "0")
	held(t, w.read())
	w.send("LOCK.ACQUIRE", "l", "60000", "BLOCK", "20")
	w.expect("*-1\r\n")
	w.want("+PONG\r\n", "PING")
	// Plain text is no TLS.
	plain := dial(t, addr)
	plain.write("PING\r\n")
	_ = plain.conn.SetReadDeadline(time.Now().Add(patience))
	var b [256]byte
	if n, _ := plain.conn.Read(b[:]); strings.Contains(string(b[:n]), "PONG") {
		t.Error("plain text was answered")
	}
	_ = srv
}

func itoa[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

func TestOptions(t *testing.T) {
	_, err := server.New(server.Options{MaxClients: -1, Username: "u", WriteTimeout: -1})
	for _, want := range []string{"Backend is nil", "Client is nil", "MaxClients is -1", "Username is set", "must not be negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want also %q", err, want)
		}
	}
}
