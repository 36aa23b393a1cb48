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

// polled returns what Bare makes of one end, in a Poll as number 7.
func polled(t *testing.T) (*socket.Conn, net.Conn, *socket.Poll) {
	t.Helper()
	p, err := socket.NewPoll()
	if errors.Is(err, errors.ErrUnsupported) {
		// It is made of what only Linux has; the server does without elsewhere.
		t.Skip("only on Linux")
	}
	if err != nil {
		t.Fatal(err)
	}
	near, far := pair(t)
	bare, err := socket.Bare(near.Conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Add(bare, 7<<40); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bare.Release(); _ = p.Close() })
	return bare, far, p
}

// told waits for events until one says what is wanted.
func told(t *testing.T, p *socket.Poll, last bool) {
	t.Helper()
	for {
		events, err := p.Wait(nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) != 1 || events[0].ID != 7<<40 {
			t.Fatalf("events %v", events)
		}
		if events[0].Last == last {
			return
		}
	}
}

func TestPollTellsWhatComes(t *testing.T) {
	bare, far, p := polled(t)
	buf := make([]byte, 10)
	if n, err := bare.Read(buf); n != 0 || !errors.Is(err, socket.ErrWouldBlock) {
		t.Fatalf("Read = %d, %v; want ErrWouldBlock", n, err)
	}
	for range 2 {
		if _, err := far.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		told(t, p, false)
		if n, err := bare.Read(buf); err != nil || string(buf[:n]) != "hello" {
			t.Fatalf("Read = %q, %v", buf[:n], err)
		}
		if events, err := p.Look(nil); err != nil || len(events) > 0 {
			t.Fatalf("Look = %v, %v; it has been told", events, err)
		}
	}
	if n, err := bare.TryWrite([]byte("reply")); n != 5 || err != nil {
		t.Fatalf("TryWrite = %d, %v", n, err)
	}
	if _, err := io.ReadFull(far, buf[:5]); err != nil || string(buf[:5]) != "reply" {
		t.Fatalf("%q arrived, %v", buf[:5], err)
	}
	far.Close()
	told(t, p, true)
	if _, err := bare.Read(buf); !errors.Is(err, io.EOF) {
		t.Fatalf("Read = %v, want EOF", err)
	}
}

// What others do to a connection is told too.
func TestPollTellsOfTheEnd(t *testing.T) {
	for name, end := range map[string]func(c *socket.Conn) error{
		"Close":    func(c *socket.Conn) error { return c.Close() },
		"deadline": func(c *socket.Conn) error { return c.SetReadDeadline(time.Unix(1, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			bare, far, p := polled(t)
			if err := end(bare); err != nil {
				t.Fatal(err)
			}
			told(t, p, true)
			if _, err := bare.Read(make([]byte, 10)); !errors.Is(err, io.EOF) {
				t.Fatalf("Read = %v, want EOF", err)
			}
			if name == "deadline" { // it can still be written to
				if n, err := bare.TryWrite([]byte("x")); n != 1 || err != nil {
					t.Errorf("TryWrite = %d, %v", n, err)
				}
				if _, err := far.Read(make([]byte, 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestGiveBack(t *testing.T) {
	bare, far, p := polled(t)
	if _, err := bare.GiveBack(); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n, err := bare.Read(buf); err != nil || string(buf[:n]) != "hello" { // which waits
		t.Fatalf("Read = %q, %v", buf[:n], err)
	}
	if events, err := p.Look(nil); err != nil || len(events) > 0 {
		t.Errorf("Look = %v, %v; the poll has let go of it", events, err)
	}
	if err := bare.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := bare.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read = %v; want a deadline exceeded", err)
	}
	bare.Close()
	if _, err := far.Read(buf); !errors.Is(err, io.EOF) {
		t.Errorf("the other end: %v, want EOF", err)
	}
}

func TestCloseEndsWait(t *testing.T) {
	_, _, p := polled(t)
	ended := make(chan error, 1)
	go func() {
		_, err := p.Wait(nil)
		ended <- err
	}()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("Wait returned no error")
	}
}

// A TLS connection, for instance.
type noSocket struct{ net.Conn }

func TestWhatIsNoSocketIsUsedAsItIs(t *testing.T) {
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
