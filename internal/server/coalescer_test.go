package server

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestRepliesOfAPipelineLeaveTogether: replies of several servers are one write, unless one server is
// slow. After that, replies no longer wait for each other.
func TestRepliesOfAPipelineLeaveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, client := pipeOutput()
		o.coalescer = new(coalescer)
		tag := uint64(0)
		reply := func(raw string) {
			if o.Reply(tag, []byte(raw)) {
				o.Flush()
			}
			tag++
		}
		read := func(want string, least, most time.Duration) {
			t.Helper()
			began := time.Now()
			buf := make([]byte, 100)
			n, err := client.Read(buf)
			if d := time.Since(began); string(buf[:n]) != want || err != nil || d < least || d > most {
				t.Errorf("%q, %v, after %v; want %q within %v to %v", buf[:n], err, d, want, least, most)
			}
			synctest.Wait() // until the writer has ended
		}
		o.asked.Store(2)
		reply("+a\r\n")
		synctest.Wait()
		reply("+b\r\n")
		read("+a\r\n+b\r\n", 0, 0)

		o.asked.Store(4)
		reply("+c\r\n")
		read("+c\r\n", maxHold, maxHold+holdTick)
		reply("+d\r\n")
		read("+d\r\n", 0, 0)

		o.asked.Store(6)
		reply("+e\r\n")
		read("+e\r\n", 0, 0) // one of the servers is slow
		reply("+f\r\n")
		read("+f\r\n", 0, 0)

		for range impatience {
			reply("+g\r\n")
			read("+g\r\n", 0, 0)
		}
		o.asked.Store(tag + 2)
		reply("+h\r\n")
		o.mu.Lock()
		held := o.held
		o.mu.Unlock()
		if !held {
			t.Error("nothing is held back any more")
		}
		o.Push([]byte(">m\r\n"))
		o.Flush()
		read("+h\r\n>m\r\n", 0, 0) // a message doesn't wait
		o.fail(io.EOF)
	})
}

// TestHeldLittle: what is much is not held back.
func TestHeldLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, client := pipeOutput()
		o.coalescer = new(coalescer)
		o.asked.Store(2)
		if o.Reply(0, make([]byte, maxHeld)) {
			o.Flush()
		}
		began := time.Now()
		if _, err := io.ReadFull(client, make([]byte, maxHeld)); err != nil || time.Since(began) > 0 {
			t.Errorf("%v, after %v", err, time.Since(began))
		}
		o.fail(net.ErrClosed)
	})
}
