package socket_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/socket"
)

// pair returns two ends of a TCP connection.
func pair(t *testing.T) (*socket.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return socket.New(near), far
}

func TestBytesOfAnyLengthArrive(t *testing.T) {
	for _, size := range []int{1, 100, 64 << 10, 64<<10 + 1, 8 << 20} {
		near, far := pair(t)
		want := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		sent := make(chan error, 1)
		go func() {
			_, err := near.Write(want)
			sent <- err
		}()
		got := make([]byte, size)
		if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes written: other bytes arrived (%v)", size, err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := far.Write(want)
			sent <- err
		}()
		if _, err := io.ReadFull(near, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes read: other bytes arrived (%v)", size, err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadEndsWithTheConnection(t *testing.T) {
	near, far := pair(t)
	far.Close()
	if n, err := near.Read(make([]byte, 10)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("Read = %d, %v; want 0, EOF", n, err)
	}
}

func TestCloseEndsRead(t *testing.T) {
	near, _ := pair(t)
	ended := make(chan error, 1)
	go func() {
		_, err := near.Read(make([]byte, 10))
		ended <- err
	}()
	near.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read = %v; want net.ErrClosed", err)
	}
}

func TestDeadlinesHold(t *testing.T) {
	near, _ := pair(t)
	if err := near.SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read = %v; want a deadline exceeded", err)
	}
	n, err := near.Write(make([]byte, 64<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write = %d, %v; want a deadline exceeded", n, err)
	}
}

func TestTryWriteDoesNotWait(t *testing.T) {
	near, far := pair(t)
	total := 0
	chunk := make([]byte, 1<<20)
	for {
		n, err := near.TryWrite(chunk)
		if err != nil {
			t.Fatal(err)
		}
		total += n
		if n == 0 {
			break // full
		}
	}
	if n, err := io.ReadFull(far, make([]byte, total)); err != nil {
		t.Errorf("of %d bytes %d arrived: %v", total, n, err)
	}
}

func TestAFailedWriteSaysSo(t *testing.T) {
	near, far := pair(t)
	far.Close()
	for {
		if _, err := near.Write([]byte("x")); err != nil {
			return // EPIPE or ECONNRESET, once the other end has answered
		}
	}
}

// A TLS connection, for instance.
type noSocket struct{ net.Conn }

func TestOtherConnsAreUsedUnchanged(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	s := socket.New(noSocket{a})
	if n, err := s.TryWrite([]byte("x")); n != 0 || err != nil {
		t.Errorf("TryWrite = %d, %v; want 0, nil", n, err)
	}
	go s.Write([]byte("hello")) //nolint:errcheck // read below
	got := make([]byte, 5)
	if _, err := io.ReadFull(b, got); err != nil || string(got) != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
	go b.Write([]byte("reply")) //nolint:errcheck // read below
	if _, err := io.ReadFull(s, got); err != nil || string(got) != "reply" {
		t.Errorf("read %q, %v", got, err)
	}
}
