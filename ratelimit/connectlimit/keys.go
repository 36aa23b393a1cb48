package connectlimit

import (
	"context"
	"net/http"
	"net/url"

	"connectrpc.com/connect"
)

// A Call is a call as a Key sees it.
type Call struct {
	// Context is the context of the call.
	Context context.Context //nolint:containedctx // a key has one argument, and this is what a call is known by
	// Spec has the Procedure, "/package.Service/Method".
	Spec connect.Spec
	// Peer has the address of the client. It is empty in the Key of a client.
	Peer connect.Peer
	// Header is the header of the request. It is nil in the Key of a client.
	Header http.Header
}

// Procedure is a Key by the called method.
func Procedure(c *Call) string { return c.Spec.Procedure }

// FromHTTP returns a Key for calls to a handler. It passes to key a request with the call's context, procedure,
// header and peer, and without a body.
func FromHTTP(key func(*http.Request) string) func(*Call) string {
	return func(c *Call) string {
		r := &http.Request{
			Method: http.MethodPost, URL: &url.URL{Path: c.Spec.Procedure}, Header: c.Header,
			RemoteAddr: c.Peer.Addr, Body: http.NoBody,
		}
		return key(r.WithContext(c.Context))
	}
}
