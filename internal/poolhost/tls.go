package poolhost

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/redoubt-go/redoubt/internal/certs"
	"github.com/redoubt-go/redoubt/internal/poolfile"
)

// A poolTLS has the certificates for the clients of a pool, and the TLS configurations for its servers and
// Sentinels; nil means plain text. digest is the digest of the files for servers and Sentinels.
type poolTLS struct {
	listen             *certs.Set
	servers, sentinels *tls.Config
	digest             [sha256.Size]byte
}

// readTLS reads the certificates of a pool.
func readTLS(c poolfile.Pool) (t poolTLS, err error) {
	var lerr error
	if c.ListenTLS.Cert != "" {
		if t.listen, lerr = certs.Read(certs.Files(c.ListenTLS)); lerr != nil {
			lerr = fmt.Errorf("listen_tls_cert, listen_tls_key, listen_tls_ca: %w", lerr)
		}
	}
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

func serverTLS(f poolfile.ServerTLS) (cfg *tls.Config, digest [sha256.Size]byte, err error) {
	if !f.Enabled {
		return nil, digest, nil
	}
	cfg = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.Name}
	var authorities, pair []byte
	if f.CA != "" {
		if cfg.RootCAs, authorities, err = certs.Authorities(f.CA); err != nil {
			return nil, digest, fmt.Errorf("server_tls_ca: %w", err)
		}
	}
	if f.Cert != "" {
		var cert tls.Certificate
		if cert, pair, err = certs.Pair(f.Cert, f.Key); err != nil {
			return nil, digest, fmt.Errorf("server_tls_cert, server_tls_key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, sha256.Sum256(bytes.Join([][]byte{authorities, pair}, []byte{0})), nil
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
