package attack

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"time"
)

// A firstFlight records what a client sends before the server answers.
type firstFlight struct {
	net.Conn
	sent []byte
}

func (f *firstFlight) Write(b []byte) (int, error) {
	f.sent = append(f.sent, b...)
	return 0, net.ErrClosed
}

// clientHello is the first record of a client of TLS.
func clientHello() []byte {
	f := &firstFlight{}
	_ = tls.Client(f, &tls.Config{InsecureSkipVerify: true}).Handshake() //nolint:gosec // It connects to nobody, and fails.
	return f.sent
}

// brokenHandshakes opens connections that never become sessions of TLS.
func brokenHandshakes(ctx context.Context, rng *rand.Rand, on *round) {
	hello := clientHello()
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	for range 300 {
		c, err := net.DialTimeout("tcp", on.addr, 5*time.Second)
		if err != nil || ctx.Err() != nil {
			break
		}
		open = append(open, c)
		var b []byte
		switch rng.IntN(6) {
		case 0: // nothing
		case 1: // a part
			b = hello[:rng.IntN(len(hello))]
		case 2: // damaged
			b = append(b, hello...)
			for range 1 + rng.IntN(5) {
				b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
			}
		case 3: // a record of any kind, that announces as much as a record can
			b = append([]byte{byte(20 + rng.IntN(5)), 3, byte(rng.IntN(5)), 0xff, 0xff}, make([]byte, rng.IntN(1<<14))...)
		case 4: // more and more handshakes on one connection
			for range 1 + rng.IntN(50) {
				b = append(b, hello...)
			}
		default: // a client of the plain protocol
			b = bytesOf(1+rng.IntN(1000), "PING")
		}
		on.sending(b)
		_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)) // It fails only if closed.
		_, _ = c.Write(b)                                              // It may be refused before its end.
		if rng.IntN(3) == 0 {
			_ = c.Close()
		}
	}
	pause(ctx, 200*time.Millisecond)
}
