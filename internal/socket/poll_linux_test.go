package socket_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redoubt-go/redoubt/internal/socket"
)

// polled returns what Detach makes of one end, in a Poll as number 7.
func polled(t *testing.T) (*socket.Conn, net.Conn, *socket.Poll) {
	t.Helper()
	p, err := socket.NewPoll()
	if err != nil {
		t.Fatal(err)
	}
	near, far := pair(t)
	detached, err := socket.Detach(near.Conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Add(detached, 7<<40); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { detached.Release(); _ = p.Close() })
	return detached, far, p
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
	detached, far, p := polled(t)
	buf := make([]byte, 10)
	if n, err := detached.Read(buf); n != 0 || !errors.Is(err, socket.ErrWouldBlock) {
		t.Fatalf("Read = %d, %v; want ErrWouldBlock", n, err)
	}
	for range 2 {
		if _, err := far.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		told(t, p, false)
		if n, err := detached.Read(buf); err != nil || string(buf[:n]) != "hello" {
			t.Fatalf("Read = %q, %v", buf[:n], err)
		}
		if events, err := p.Look(nil); err != nil || len(events) > 0 {
			t.Fatalf("Look = %v, %v; it has been told", events, err)
		}
	}
	if n, err := detached.TryWrite([]byte("reply")); n != 5 || err != nil {
		t.Fatalf("TryWrite = %d, %v", n, err)
	}
	if _, err := io.ReadFull(far, buf[:5]); err != nil || string(buf[:5]) != "reply" {
		t.Fatalf("%q arrived, %v", buf[:5], err)
	}
	far.Close()
	told(t, p, true)
	if _, err := detached.Read(buf); !errors.Is(err, io.EOF) {
		t.Fatalf("Read = %v, want EOF", err)
	}
}

// TestPollTellsOfTheEnd: Poll reports the end of a connection too.
func TestPollTellsOfTheEnd(t *testing.T) {
	for name, end := range map[string]func(c *socket.Conn) error{
		"Close":    func(c *socket.Conn) error { return c.Close() },
		"deadline": func(c *socket.Conn) error { return c.SetReadDeadline(time.Unix(1, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			detached, far, p := polled(t)
			if err := end(detached); err != nil {
				t.Fatal(err)
			}
			told(t, p, true)
			if _, err := detached.Read(make([]byte, 10)); !errors.Is(err, io.EOF) {
				t.Fatalf("Read = %v, want EOF", err)
			}
			if name == "deadline" { // it can still be written to
				if n, err := detached.TryWrite([]byte("x")); n != 1 || err != nil {
					t.Errorf("TryWrite = %d, %v", n, err)
				}
				if _, err := far.Read(make([]byte, 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestAttach(t *testing.T) {
	detached, far, p := polled(t)
	if _, err := detached.Attach(); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n, err := detached.Read(buf); err != nil || string(buf[:n]) != "hello" { // which waits
		t.Fatalf("Read = %q, %v", buf[:n], err)
	}
	if events, err := p.Look(nil); err != nil || len(events) > 0 {
		t.Errorf("Look = %v, %v; the poll has let go of it", events, err)
	}
	if err := detached.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := detached.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read = %v; want a deadline exceeded", err)
	}
	detached.Close()
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
