package socket

import (
	"context"
	"net"
	"os"
)

// Listen is net.Listen, except that a unix socket which a killed process has left is
// not in the way. One that somebody listens on is.
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
