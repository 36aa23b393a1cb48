package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/certtest"
)

// open returns a source of files, and the address of a listener that says "ok" to clients with its certificates.
func open(t *testing.T, f Files) (*Source, string) {
	t.Helper()
	set, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSource(f, set)
	l, err := tls.Listen("tcp", "127.0.0.1:0", s.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.WriteString(conn, "ok")
				_ = conn.Close()
			}()
		}
	}()
	return s, l.Addr().String()
}

// connect returns what a client sees of a listener once it has been let in.
func connect(addr string, cfg *tls.Config) (tls.ConnectionState, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", addr, cfg)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer func() { _ = conn.Close() }()
	_, err = io.ReadAll(conn) // an error of the client's certificate comes only now in TLS 1.3
	return conn.ConnectionState(), err
}

func write(t *testing.T, to string, from ...string) {
	t.Helper()
	var all []byte
	for _, f := range from {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	// A watcher never sees a part of the file.
	part := to + ".part"
	if err := errors.Join(os.WriteFile(part, all, 0o600), os.Rename(part, to)); err != nil {
		t.Fatal(err)
	}
}

// TestRemovedAuthority: a client of an authority that was removed is refused, even if it resumes a session from
// before. Without client certificates sessions are resumed, across a renewed certificate too.
func TestRemovedAuthority(t *testing.T) {
	ours, others := certtest.New(t), certtest.New(t)
	ours.Sign("server")
	ours.Sign("user")
	others.Sign("user")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			ca := filepath.Join(t.TempDir(), "clients.crt")
			write(t, ca, ours.File("ca.crt"), others.File("ca.crt"))
			s, addr := open(t, Files{Cert: ours.File("server.crt"), Key: ours.File("server.key"), CA: ca})
			client := func(certificates []tls.Certificate) *tls.Config {
				return &tls.Config{
					RootCAs: ours.Client("").RootCAs, MinVersion: version, MaxVersion: version,
					ClientSessionCache: tls.NewLRUClientSessionCache(8), Certificates: certificates,
				}
			}
			stays, leaves := client(ours.Client("user").Certificates), client(others.Client("user").Certificates)
			for _, cfg := range []*tls.Config{stays, leaves, leaves} {
				if seen, err := connect(addr, cfg); err != nil || seen.DidResume {
					t.Fatalf("resumed %t, %v", seen.DidResume, err)
				}
			}
			write(t, ca, ours.File("ca.crt"))
			s.Reload(slog.New(slog.DiscardHandler))
			if _, err := connect(addr, leaves); err == nil {
				t.Error("the client of the removed authority was let in")
			}
			if _, err := connect(addr, stays); err != nil {
				t.Error(err)
			}

			_, addr = open(t, Files{Cert: ours.File("server.crt"), Key: ours.File("server.key")})
			free := client(nil)
			for i := range 2 {
				if seen, err := connect(addr, free); err != nil || seen.DidResume != (i > 0) {
					t.Errorf("connection %d without a client certificate: resumed %t, %v", i, seen.DidResume, err)
				}
			}
		})
	}
}

// TestOldVersionsAreRefused: TLS 1.1 gets no connection.
func TestOldVersionsAreRefused(t *testing.T) {
	ours := certtest.New(t)
	ours.Sign("server")
	_, addr := open(t, Files{Cert: ours.File("server.crt"), Key: ours.File("server.key")})
	cfg := &tls.Config{RootCAs: ours.Client("").RootCAs, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11} //nolint:gosec // on purpose
	if _, err := connect(addr, cfg); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("%v, want an error about the version", err)
	}
}

// TestWatch: changes of the files are found: a symbolic link that leads elsewhere, as in Kubernetes, and files
// that are written anew. Wrong files change nothing and are told once, by name.
func TestWatch(t *testing.T) {
	ours := certtest.New(t)
	dir := t.TempDir()
	version := func(name string) {
		t.Helper()
		ours.Sign("server")
		to := filepath.Join(dir, name)
		if err := os.Mkdir(to, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(to, "tls.crt"), ours.File("server.crt"))
		write(t, filepath.Join(to, "tls.key"), ours.File("server.key"))
		link := filepath.Join(dir, "..new")
		if err := os.Symlink(name, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1")
	f := Files{Cert: filepath.Join(dir, "..data", "tls.crt"), Key: filepath.Join(dir, "..data", "tls.key")}
	s, addr := open(t, f)
	serial := func() string {
		t.Helper()
		seen, err := connect(addr, ours.Client(""))
		if err != nil {
			t.Fatal(err)
		}
		return seen.PeerCertificates[0].SerialNumber.String()
	}
	ctx, cancel := context.WithCancel(t.Context())
	said, done := make(chan error, 100), make(chan struct{})
	go func() {
		defer close(done)
		s.watch(ctx, time.Millisecond, func(err error) { said <- err })
	}()
	defer func() {
		cancel()
		<-done
	}()
	first := serial()
	version("..2")
	if err := <-said; err != nil {
		t.Fatal(err)
	}
	second := serial()
	if second == first {
		t.Errorf("the certificate is still number %s", first)
	}

	ours.Sign("another")
	write(t, f.Key, ours.File("another.key"))
	if err := <-said; err == nil || !strings.Contains(err.Error(), f.Cert) || !strings.Contains(err.Error(), f.Key) || !strings.Contains(err.Error(), "private key does not match") {
		t.Errorf("%v, want the names of both files and the reason", err)
	}
	if got := serial(); got != second {
		t.Errorf("the certificate is number %s, want %s still", got, second)
	}
	write(t, f.Cert, ours.File("another.crt"))
	if err := <-said; err != nil {
		t.Errorf("after the repair: %v", err)
	}
	if got := serial(); got == second {
		t.Errorf("the certificate is still number %s", got)
	}
}

// TestFollow: the log tells of the new certificate.
func TestFollow(t *testing.T) {
	ours := certtest.New(t)
	ours.Sign("server")
	s, _ := open(t, Files{Cert: ours.File("server.crt"), Key: ours.File("server.key")})
	var log await.Buffer
	end := s.Follow(slog.New(slog.NewTextHandler(&log, nil)))
	defer end()
	ours.Sign("server")
	await.Until(t, time.Minute, "the log tells", func() bool {
		return strings.Contains(log.String(), "reloaded the certificates") && strings.Contains(log.String(), "expires=")
	})
}

// TestReadRefuses: errors name the file and what is wrong with it.
func TestReadRefuses(t *testing.T) {
	ours := certtest.New(t)
	ours.Sign("server")
	ours.Sign("other")
	ours.SignUntil("old", time.Now().Add(-time.Minute))
	ours.SignUntil("early", time.Now().Add(2*time.Hour))
	for _, c := range []struct{ cert, key, ca, want string }{
		{"old.crt", "old.key", "", "old.crt expired at 20"},
		{"early.crt", "early.key", "", "early.crt is not valid before 20"},
		{"server.crt", "other.key", "", "other.key: tls: private key does not match"},
		{"none.crt", "server.key", "", "none.crt: no such file"},
		{"server.crt", "none.key", "", "none.key: no such file"},
		{"server.crt", "server.key", "none.crt", "none.crt: no such file"},
		{"server.crt", "server.key", "server.key", "server.key has no certificate in PEM"},
	} {
		f := Files{Cert: ours.File(c.cert), Key: ours.File(c.key)}
		if c.ca != "" {
			f.CA = ours.File(c.ca)
		}
		if _, err := Read(f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c, err, c.want)
		}
	}
}
