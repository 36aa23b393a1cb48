package socket

import (
	"context"
	"net"
	"os"
)

// Exposed reports whether other machines can reach a listener's address.
func Exposed(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback()
}

// Listen is net.Listen. But it replaces a unix socket that a killed process has left
// behind. A socket with a listener is an error.
func Listen(ctx context.Context, network, address string) (net.Listener, error) {
	if network == "unix" {
		if c, err := (&net.Dialer{}).DialContext(ctx, network, address); err == nil {
			_ = c.Close()
		} else if st, serr := os.Lstat(address); serr == nil && st.Mode()&os.ModeSocket != 0 {
			_ = os.Remove(address)
		}
	}
	return (&net.ListenConfig{}).Listen(ctx, network, address)
}
