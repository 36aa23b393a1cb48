package server

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt/internal/socket"
	"github.com/redoubt-go/redoubt/internal/test/await"
)

func pipeOutput() (*output, net.Conn) {
	client, conn := net.Pipe()
	o := &output{conn: socket.New(conn), timeout: time.Second, max: 1 << 20, traffic: new(traffic)}
	o.init()
	return o, client
}

// The write time-out is for a client that takes nothing, not for one that
// takes a large reply slowly.
func TestSlowlyTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, client := pipeOutput()
		want := bytes.Repeat([]byte("x"), 100)
		if o.Reply(0, want) {
			o.Flush()
		}
		var got []byte
		for len(got) < len(want) {
			await.Advance(900 * time.Millisecond) // the client's pace
			buf := make([]byte, 10)
			n, err := client.Read(buf)
			if got = append(got, buf[:n]...); err != nil {
				t.Fatalf("after %d bytes: %v", len(got), err)
			}
		}
		o.fail(io.EOF)
	})
}

// Promise: The server closes a client that takes no reply for the write time-out.
func TestTakenNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, client := pipeOutput()
		began := time.Now()
		if o.Reply(0, bytes.Repeat([]byte("x"), 100)) {
			o.Flush()
		}
		if _, err := client.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if o.await(noDeadline, func() bool { return false }) {
			t.Error("what nobody took was written")
		}
		if d := time.Since(began); d < time.Second || d > 2*time.Second {
			t.Errorf("closed after %v, want 1 to 2 s", d)
		}
	})
}
