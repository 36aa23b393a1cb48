package grpclimit

import (
	"context"
	"net/http"
	"net/netip"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/redoubt-go/redoubt/ratelimit/httplimit"
	"github.com/redoubt-go/redoubt/ratelimit/policy"
)

// A Call is a call as a Key sees it.
type Call struct {
	// Context is the context of the call, with its peer and its metadata.
	Context context.Context //nolint:containedctx // a key has one argument, and this is what a call is known by
	// Method is the full name, "/package.Service/Method".
	Method string
}

// PeerIP is a Key by the address of the peer; an IPv6 address counts as its network of 64
// bits. Peers without an address, as on a unix socket, share one limit.
func PeerIP(c *Call) string {
	ap, err := netip.ParseAddrPort(peerAddr(c))
	if err != nil {
		return ""
	}
	return policy.AddrKey(ap.Addr(), policy.DefaultIPv6Bits)
}

// ClientIP returns a Key by the address of the client behind proxies, as
// [httplimit.ClientIP] does. IPOptions.Field names an entry of the metadata.
func ClientIP(opts httplimit.IPOptions) (func(*Call) string, error) {
	key, err := httplimit.ClientIP(opts)
	if err != nil {
		return nil, err
	}
	field := opts.Field
	if field == "" {
		field = "X-Forwarded-For"
	}
	return func(c *Call) string {
		reported := http.Header{http.CanonicalHeaderKey(field): metadata.ValueFromIncomingContext(c.Context, field)}
		return key(&http.Request{RemoteAddr: peerAddr(c), Header: reported})
	}, nil
}

func peerAddr(c *Call) string {
	p, ok := peer.FromContext(c.Context)
	if !ok || p.Addr == nil {
		return ""
	}
	return p.Addr.String()
}

// Metadata returns a Key by the first value of name in the call's metadata. The server gets
// a hash, so that its keys don't show API keys. Calls without the value share one limit.
func Metadata(name string) func(*Call) string {
	return func(c *Call) string {
		if values := metadata.ValueFromIncomingContext(c.Context, name); len(values) > 0 && values[0] != "" {
			return policy.Hash(values[0])
		}
		return ""
	}
}

// Method is a Key by the called method.
func Method(c *Call) string { return c.Method }
