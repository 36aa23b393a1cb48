package socket_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/redoubt-go/redoubt/internal/socket"
)

// TestMakeRoom reads a stream through a small buffer, in messages of random length. No byte is lost, there
// is always room for the next read, and the bytes that are moved stay within a multiple of the stream.
func TestMakeRoom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	stream := make([]byte, 1<<16)
	for i := range stream {
		stream[i] = byte(i * i >> 3)
	}
	buf := make([]byte, 64)
	from, to, read, used := 0, 0, 0, 0
	for used < len(stream) {
		var full bool
		if from, to, full = socket.MakeRoom(buf, from, to); full {
			buf = socket.Grow(buf[from:to], 2*len(buf))
			from, to = 0, to-from
		}
		if to == len(buf) {
			t.Fatalf("no room behind %d of %d bytes", to-from, len(buf))
		}
		n := copy(buf[to:min(len(buf), to+1+r.IntN(100))], stream[read:])
		to, read = to+n, read+n
		take := to - from
		if read < len(stream) {
			take = r.IntN(take + 1)
		}
		if !bytes.Equal(buf[from:from+take], stream[used:used+take]) {
			t.Fatalf("wrong bytes at %d", used)
		}
		from, used = from+take, used+take
	}
	if len(buf) > 1<<10 {
		t.Errorf("the buffer has grown to %d bytes", len(buf))
	}
}
