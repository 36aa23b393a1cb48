//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redoubt-go/redoubt/internal/test/certtest"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/internal/test/slow"
)

// startDoors starts serve on a plain address, one with TLS and a unix socket, and returns them.
func startDoors(t *testing.T, ours *certtest.Authority, args ...string) (s *serving, plain, encrypted, socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	s = startServing(t, append([]string{
		"--listen=127.0.0.1:0", "--listen=tls://127.0.0.1:0,unix:" + socket, "--listen=tls://unix:" + socket + "s",
		"--tls-cert-file", ours.File("server.crt"), "--tls-key-file", ours.File("server.key"),
	}, args...)...)
	all := strings.Split(s.addr, ", ")
	if len(all) != 4 || !strings.HasPrefix(all[1], tlsAddress) || all[2] != socket || all[3] != tlsAddress+socket+"s" {
		t.Fatalf("it says listen=%q", s.addr)
	}
	return s, all[0], strings.TrimPrefix(all[1], tlsAddress), socket
}

// TestServeTLS: redis-cli and go-redis reach the engine and a server on each of several addresses; with TLS only
// with a certificate of the clients' authority.
func TestServeTLS(t *testing.T) {
	ours, others := certtest.New(t), certtest.New(t)
	ours.Sign("server")
	ours.Sign("user")
	others.Sign("user")
	for name, args := range map[string][]string{"engine": nil, "redis": {"--backend", redistest.Start(t).URL()}} {
		t.Run(name, func(t *testing.T) {
			s, plain, encrypted, socket := startDoors(t, ours, append(args, "--tls-ca-cert-file", ours.File("ca.crt"))...)
			host, port, _ := net.SplitHostPort(encrypted)
			cli := func(by *certtest.Authority) string {
				t.Helper()
				out, _ := exec.CommandContext(t.Context(), "redis-cli", "-h", host, "-p", port, "--tls", "--cacert", ours.File("ca.crt"),
					"--cert", by.File("user.crt"), "--key", by.File("user.key"), "SET", "k", "v").CombinedOutput()
				return strings.TrimSpace(string(out))
			}
			if got := cli(ours); got != "OK" {
				t.Errorf("redis-cli: %q", got)
			}
			if got := cli(others); got == "OK" {
				t.Error("a client of another authority was let in")
			}
			get := func(o redis.Options) (string, error) {
				o.MaxRetries = -1
				c := redis.NewClient(&o)
				defer func() { _ = c.Close() }()
				return c.Get(t.Context(), "k").Result()
			}
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				cfg := ours.Client("user")
				cfg.MinVersion, cfg.MaxVersion = version, version
				if got, err := get(redis.Options{Addr: encrypted, TLSConfig: cfg}); got != "v" {
					t.Errorf("%s: %q, %v", tls.VersionName(version), got, err)
				}
			}
			if got, err := get(redis.Options{Addr: plain}); got != "v" {
				t.Errorf("plain: %q, %v", got, err)
			}
			if got, err := get(redis.Options{Network: "unix", Addr: socket}); got != "v" {
				t.Errorf("unix: %q, %v", got, err)
			}
			named := ours.Client("user")
			named.ServerName = "127.0.0.1" // a socket has no name that a certificate could have
			if got, err := get(redis.Options{Network: "unix", Addr: socket + "s", TLSConfig: named}); got != "v" {
				t.Errorf("unix with TLS: %q, %v", got, err)
			}
			for what, o := range map[string]redis.Options{"plain text on the socket": {Network: "unix", Addr: socket + "s"}, "plain text": {Addr: encrypted}, "no certificate": {Addr: encrypted, TLSConfig: ours.Client("")}} {
				if _, err := get(o); err == nil {
					t.Errorf("%s was let in on the address with TLS", what)
				}
			}
			s.signal(syscall.SIGTERM)
			if code := s.wait(); code != 0 {
				t.Errorf("exit %d: %s", code, s.stderr.String())
			}
		})
	}
}

// TestCertificatesChangeUnderLoad: while clients connect all the time, the certificate is renewed again and again,
// by a symbolic link and by SIGHUP. No client fails. A wrong key changes nothing, and the log names the file.
func TestCertificatesChangeUnderLoad(t *testing.T) {
	slow.Test(t, "it changes certificates under load")
	ours := certtest.New(t)
	dir := t.TempDir()
	renew := func(version string) (serial string) {
		t.Helper()
		cert := ours.Sign("server")
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, "new")
		err := errors.Join(
			os.Rename(ours.File("server.crt"), filepath.Join(dir, version, "server.crt")),
			os.Rename(ours.File("server.key"), filepath.Join(dir, version, "server.key")),
			os.Symlink(version, link), os.Rename(link, filepath.Join(dir, "data")),
		)
		if err != nil {
			t.Fatal(err)
		}
		return cert.SerialNumber.String()
	}
	renew("0")
	cert, key := filepath.Join(dir, "data", "server.crt"), filepath.Join(dir, "data", "server.key")
	s := startServing(t, "--listen=tls://127.0.0.1:0", "--tls-cert-file", cert, "--tls-key-file", key)
	addr := strings.TrimPrefix(s.addr, tlsAddress)

	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var mu sync.Mutex
	seen, faults := map[string]int{}, map[string]int{}
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				cfg, serial := ours.Client(""), ""
				cfg.VerifyConnection = func(c tls.ConnectionState) error {
					serial = c.PeerCertificates[0].SerialNumber.String()
					return nil
				}
				c := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: cfg, MaxRetries: -1, PoolSize: 1})
				err := c.Incr(context.Background(), "n").Err()
				_ = c.Close()
				mu.Lock()
				if seen[serial]++; err != nil {
					faults[err.Error()]++
				}
				mu.Unlock()
			}
		})
	}
	for _, version := range []string{"1", "2", "3", "4", "5", "6"} {
		serial := renew(version)
		if version > "2" { // the others are found without
			s.signal(syscall.SIGHUP)
		}
		eventually(t, "a client sees certificate "+serial, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return seen[serial] > 0
		})
	}
	before := strings.Count(s.stderr.String(), "reloaded the certificates")
	ours.Sign("other")
	if err := os.Rename(ours.File("other.key"), key); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	eventually(t, "the log has the error", func() bool {
		return strings.Contains(s.stderr.String(), `"msg":"certificates not reloaded: new clients see the former ones"`)
	})
	cancel()
	clients.Wait()
	mustContain(t, "log", s.stderr.String(), "private key does not match", key)
	if len(faults) > 0 || before == 0 {
		t.Errorf("faults: %v after %v", faults, seen)
	}
}

// TestListenRefuses: what is wrong with the addresses, or the files, in one line.
func TestListenRefuses(t *testing.T) {
	ours := certtest.New(t)
	ours.Sign("server")
	ours.Sign("other")
	files := "--tls-cert-file=" + ours.File("server.crt") + " --tls-key-file=" + ours.File("server.key")
	for _, c := range []struct{ args, want string }{
		{"--listen=", "listen is empty; want host:port, tls://host:port, unix:/path or tls://unix:/path"},
		{"--listen=tls://", "listen has a URL, a user or an empty address"},
		{"--listen=redis://127.0.0.1:1", "listen has a URL"},
		{"--listen=me@127.0.0.1:1", "listen has a URL"},
		{"--listen=tls://127.0.0.1:0", "needs --tls-cert-file and --tls-key-file"},
		{"--listen=127.0.0.1:0 " + files, "no address of --listen begins with tls://"},
		{"--listen=tls://127.0.0.1:0 --tls-cert-file=" + ours.File("server.crt") + " --tls-key-file=" + ours.File("other.key"), "private key does not match"},
		{"--listen=127.0.0.1:0,tls://0.0.0.0:0 " + files, "an address beyond this machine needs a password"},
	} {
		code, _, stderr := runToEnd(t, nil, append([]string{"serve", "--http="}, strings.Fields(c.args)...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("serve %s: exit %d, %q; want %q", c.args, code, stderr, c.want)
		}
	}
}
