// Package certs reads the certificates of a TLS listener, and replaces them while clients connect.
//
//	set, err := certs.Read(files)
//	…
//	source := certs.NewSource(files, set)
//	listener := tls.NewListener(inner, source.Config())
//	defer source.Follow(log)()
//
// A new connection gets the certificates that were read last. Invalid files change nothing.
//
// [Source.Follow] compares the contents of the files, because Kubernetes renews a certificate by pointing a
// symbolic link elsewhere. Rejected: fsnotify, which has to watch each directory and link on the path, and
// misses changes on network file systems.
package certs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Files name the files of a listener, in PEM.
type Files struct {
	Cert, Key string
	CA        string // authorities that sign clients' certificates; empty: clients need no certificate
}

// A Set is what the files had when they were read. It is immutable.
type Set struct {
	config *tls.Config
	digest [sha256.Size]byte
	// Expires is when the server's certificate expires.
	Expires time.Time
}

// Read reads and checks the files: the key must be the certificate's, and the certificate valid now. An error
// names the files.
func Read(f Files) (*Set, error) {
	set, _, err := read(f)
	return set, err
}

// read also returns the digest of files that are wrong.
func read(f Files) (_ *Set, digest [sha256.Size]byte, err error) {
	pair, text, err := Pair(f.Cert, f.Key)
	// Without session tickets for clients that have certificates: a resumed session is not verified again, so
	// a client of an authority that was removed meanwhile would get in (CVE-2025-68121).
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: f.CA != ""}
	if f.CA != "" {
		pool, more, caErr := Authorities(f.CA)
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, pool
		text, err = append(append(text, 0), more...), errors.Join(err, caErr)
	}
	if err != nil {
		return nil, sha256.Sum256(fmt.Append(text, err)), err
	}
	digest = sha256.Sum256(text)
	return &Set{config: cfg, digest: digest, Expires: pair.Leaf.NotAfter}, digest, nil
}

// Pair reads a certificate and its key, and returns the text of both too. It refuses a certificate that has
// expired, or is not valid yet. An error names the files.
func Pair(cert, key string) (tls.Certificate, []byte, error) {
	certText, cerr := os.ReadFile(cert)
	keyText, kerr := os.ReadFile(key)
	text := bytes.Join([][]byte{certText, keyText}, []byte{0})
	if err := errors.Join(cerr, kerr); err != nil {
		return tls.Certificate{}, text, err
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return tls.Certificate{}, text, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
	}
	switch now := time.Now(); {
	case now.After(pair.Leaf.NotAfter):
		err = fmt.Errorf("certificate %s expired at %s", cert, pair.Leaf.NotAfter.Format(time.RFC3339))
	case now.Before(pair.Leaf.NotBefore):
		err = fmt.Errorf("certificate %s is not valid before %s", cert, pair.Leaf.NotBefore.Format(time.RFC3339))
	}
	return pair, text, err
}

// Authorities reads the certificates of authorities to trust, and returns their text too.
func Authorities(file string) (*x509.CertPool, []byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, text, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, text, nil
}

// A Source gives a listener its certificates. Its methods may be called concurrently.
type Source struct {
	files   Files
	current atomic.Pointer[Set]
	mu      sync.Mutex // held while files are read, so that the set read last is the current one
}

// NewSource returns a Source that has set, until it reads the files again.
func NewSource(f Files, set *Set) *Source {
	s := &Source{files: f}
	s.current.Store(set)
	return s
}

// Config returns the configuration for a listener, which always has the current certificates.
func (s *Source) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current.Load().config, nil },
	}
}

// Expires is when the current certificate does.
func (s *Source) Expires() time.Time { return s.current.Load().Expires }

// Store makes set the current one.
func (s *Source) Store(set *Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Store(set)
}

// Reload reads the files again, and logs the result. Invalid files change nothing.
func (s *Source) Reload(log *slog.Logger) {
	_, _, err := s.reload()
	s.tell(log, err)
}

// tell logs that the files were read, or err and that the former certificates stay.
func (s *Source) tell(log *slog.Logger, err error) {
	expires := slog.Time("expires", s.current.Load().Expires)
	if err != nil {
		log.Error("certificates not reloaded: new clients see the former ones", slog.Any("error", err), expires)
		return
	}
	log.Info("reloaded the certificates", slog.String("file", s.files.Cert), expires)
}

func (s *Source) reload() (changed bool, digest [sha256.Size]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set, digest, err := read(s.files)
	if err != nil || digest == s.current.Load().digest {
		return false, digest, err
	}
	s.current.Store(set)
	return true, digest, nil
}

// period is how often Follow reads the files.
const period = 2 * time.Second

// Follow reads the files every two seconds in a goroutine, and logs changes and errors. end ends that.
func (s *Source) Follow(log *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.watch(ctx, period, func(err error) { s.tell(log, err) })
	}()
	return func() {
		cancel()
		<-done
	}
}

// watch reads the files every period until ctx ends. It calls told with nil when they have changed, and with an
// error when they are invalid. It reports an error once, and only if the files are still the same a period later:
// a certificate and its key may be written one after the other.
func (s *Source) watch(ctx context.Context, period time.Duration, told func(err error)) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	var seen, said [sha256.Size]byte // digests of files that are wrong
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, digest, err := s.reload()
		switch {
		case err == nil:
			seen, said = [sha256.Size]byte{}, [sha256.Size]byte{}
			if changed {
				told(nil)
			}
		case digest == seen && digest != said:
			said = digest
			told(err)
		default:
			seen = digest
		}
	}
}
