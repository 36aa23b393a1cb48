package poolhost

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/poolfile"
)

// A frontTLS is the TLS configuration for the clients of a pool. A reload replaces it, so that new
// connections see a renewed certificate.
type frontTLS struct{ current atomic.Pointer[tls.Config] }

// config returns the configuration for a listener, or nil for plain text.
func (t *frontTLS) config() *tls.Config {
	if t.current.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.current.Load(), nil },
	}
}

// A poolTLS has the TLS configurations for the clients, the servers and the Sentinels of a pool; nil
// means plain text. digest is the digest of the files for servers and Sentinels.
type poolTLS struct {
	listen, servers, sentinels *tls.Config
	digest                     [sha256.Size]byte
}

// readTLS reads the certificates of a pool.
func readTLS(c poolfile.Pool) (t poolTLS, err error) {
	var lerr error
	t.listen, lerr = listenTLS(c.ListenTLS)
	files := c.ServerTLS
	files.Enabled = files.Enabled || c.Sentinel.TLS
	backends, digest, serr := serverTLS(files)
	t.digest = digest
	if c.ServerTLS.Enabled {
		t.servers = backends
	}
	if c.Sentinel.TLS {
		t.sentinels = backends
	}
	if err := errors.Join(lerr, serr); err != nil {
		return poolTLS{}, fmt.Errorf("pool %q: %w", c.Name, err)
	}
	return t, nil
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
		if cfg.ClientCAs, _, err = authorities(f.CA); err != nil {
			return nil, fmt.Errorf("listen_tls_ca: %w", err)
		}
	}
	return cfg, nil
}

func serverTLS(f poolfile.ServerTLS) (cfg *tls.Config, digest [sha256.Size]byte, err error) {
	if !f.Enabled {
		return nil, digest, nil
	}
	cfg = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.Name}
	var texts [3][]byte
	if f.CA != "" {
		if cfg.RootCAs, texts[0], err = authorities(f.CA); err != nil {
			return nil, digest, fmt.Errorf("server_tls_ca: %w", err)
		}
	}
	if f.Cert != "" {
		var cerr, kerr error
		texts[1], cerr = os.ReadFile(f.Cert)
		texts[2], kerr = os.ReadFile(f.Key)
		cert := tls.Certificate{}
		if err = errors.Join(cerr, kerr); err == nil {
			cert, err = tls.X509KeyPair(texts[1], texts[2])
		}
		if err != nil {
			return nil, digest, fmt.Errorf("server_tls_cert, server_tls_key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, sha256.Sum256(bytes.Join(texts[:], []byte{0})), nil
}

// authorities reads the certificates of the authorities to trust. It returns their text too.
func authorities(file string) (*x509.CertPool, []byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, text, nil
}

// forServer returns the configuration for one server: its certificate must be for the host in
// address, unless cfg sets another name.
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
