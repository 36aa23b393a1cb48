package ports_test

import (
	"net"
	"testing"

	"github.com/redoubt-go/redoubt/internal/test/ports"
)

// Two never have the same port, though one of them doesn't listen on it, and a port
// that was given back is free.
func TestReserve(t *testing.T) {
	const n = 2000 // of 10,000: without the lock some would be given out twice
	seen := map[int]*ports.Port{}
	for range n {
		p, err := ports.Reserve()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		if seen[p.Number] != nil {
			t.Fatalf("port %d was given out twice", p.Number)
		}
		seen[p.Number] = p
	}
	for number, p := range seen {
		for range 2 { // it may be listened on again and again
			l, err := net.Listen("tcp", ports.Addr(number))
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Close()
		}
		p.Release()
		p.Release()
		lock, err := net.ListenPacket("udp4", ports.Addr(number))
		if err != nil {
			t.Fatal(err)
		}
		_ = lock.Close()
		return
	}
}
