// Package certtest makes authorities and certificates for tests of TLS.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An Authority signs certificates for 127.0.0.1, in files of a directory.
type Authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

// New returns an authority. Its certificate is ca.crt.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// Dir is the directory of the files.
func (a *Authority) Dir() string { return a.dir }

// File returns the path of a file in Dir.
func (a *Authority) File(name string) string { return filepath.Join(a.dir, name) }

// Sign writes name.crt and name.key, of a certificate that is valid for an hour, and returns the certificate.
func (a *Authority) Sign(name string) *x509.Certificate {
	a.t.Helper()
	cert, _ := a.sign(name, &x509.Certificate{})
	return cert
}

// SignUntil is Sign for a certificate that is valid for an hour before the given time.
func (a *Authority) SignUntil(name string, end time.Time) *x509.Certificate {
	a.t.Helper()
	cert, _ := a.sign(name, &x509.Certificate{NotBefore: end.Add(-time.Hour), NotAfter: end})
	return cert
}

func (a *Authority) sign(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.last++
	template.SerialNumber = big.NewInt(a.last)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	template.Subject = pkix.Name{CommonName: name}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for ext, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(a.File(name+ext), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// Client returns the configuration of a client that trusts the authority, with the certificate of that name
// unless it is empty.
func (a *Authority) Client(name string) *tls.Config {
	a.t.Helper()
	cfg := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	cfg.RootCAs.AddCert(a.cert)
	if name != "" {
		cert, err := tls.LoadX509KeyPair(a.File(name+".crt"), a.File(name+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg
}
