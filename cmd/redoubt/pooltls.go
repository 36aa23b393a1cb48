package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/poolfile"
)

// A frontTLS is TLS with the clients of a pool. Its files are read again with the file
// of pools, so that a certificate that is renewed counts for who comes then.
type frontTLS struct{ now atomic.Pointer[tls.Config] }

// config is what a listener takes, or nil where there is no TLS.
func (t *frontTLS) config() *tls.Config {
	if t.now.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.now.Load(), nil },
	}
}

// poolTLS reads the files of a pool for TLS with its clients and with its servers. What
// there is no TLS with is nil.
func poolTLS(c poolfile.Pool) (listen, servers *tls.Config, err error) {
	listen, lerr := listenTLS(c.ListenTLS)
	servers, serr := serverTLS(c.ServerTLS)
	if err := errors.Join(lerr, serr); err != nil {
		return nil, nil, fmt.Errorf("pool %q: %w", c.Name, err)
	}
	return listen, servers, nil
}

func listenTLS(f poolfile.ListenTLS) (*tls.Config, error) {
	if f.Cert == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("listen_tls_cert, listen_tls_key: %w", err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	if f.CA != "" {
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
		if cfg.ClientCAs, err = authorities(f.CA); err != nil {
			return nil, fmt.Errorf("listen_tls_ca: %w", err)
		}
	}
	return cfg, nil
}

func serverTLS(f poolfile.ServerTLS) (*tls.Config, error) {
	if !f.Enabled {
		return nil, nil //nolint:nilnil // there is none
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.Name}
	if f.CA != "" {
		var err error
		if cfg.RootCAs, err = authorities(f.CA); err != nil {
			return nil, fmt.Errorf("server_tls_ca: %w", err)
		}
	}
	if f.Cert != "" {
		cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("server_tls_cert, server_tls_key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

// authorities reads certificates of those whose signatures count.
func authorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, nil
}

// forServer is a configuration for one server, whose certificate is for its host unless
// a name is set.
func forServer(cfg *tls.Config, address string) *tls.Config {
	if cfg == nil {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	cfg = cfg.Clone()
	cfg.ServerName = cmp.Or(cfg.ServerName, host)
	return cfg
}
