package socket_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"os"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/socket"
)

// TestDropDoesNotWait: dropping a TLS connection doesn't wait for the other side, which learns of the end
// within 5 s.
func TestDropDoesNotWait(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	bare, far := pair(t)
	near := tls.Server(bare.Conn, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	go tls.Client(far, &tls.Config{InsecureSkipVerify: true}).Handshake() //nolint:errcheck,gosec // it reads nothing more
	if err := near.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := near.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("writing to one who doesn't read: %v", err)
	}
	for err = nil; err == nil; { // until there is no room for a single byte
		_ = bare.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, err = bare.Write([]byte{0})
	}
	began := time.Now()
	socket.New(near).Drop()
	if took := time.Since(began); took > 20*time.Second { // a Drop that waited for the reader would never end
		t.Errorf("Drop took %v", took)
	}
}
