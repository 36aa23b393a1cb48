package connectlimit

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/redoubt-go/redoubt/ratelimit/policy"
)

// ClientOptions configure a [ClientInterceptor]: the Limiter to wait for, its Name, and a Key, which has the
// context and the Spec of a call; [Procedure] is one.
type ClientOptions = policy.ClientOptions[*Call]

// A ClientInterceptor delays the calls of clients, in all processes together, so that they keep
// to a limit of the server. It is a [connect.Interceptor]; in a handler it does nothing. Its methods may be called
// by many goroutines at once.
//
// A call waits for its token, in the order of all waiters. If the token comes after the call's
// deadline, the call ends at once with CodeResourceExhausted, and is not sent. It costs one round trip before the
// call, also for a call that waits. A stream counts as one call: it waits when it is opened.
type ClientInterceptor struct{ limit *policy.Client[*Call] }

var _ connect.Interceptor = (*ClientInterceptor)(nil)

// NewClient returns a ClientInterceptor. It sends nothing. The error joins all that is wrong
// with the options.
func NewClient(opts ClientOptions) (*ClientInterceptor, error) {
	limit, err := policy.NewClient(opts)
	if err != nil {
		return nil, err
	}
	return &ClientInterceptor{limit}, nil
}

// WrapUnary delays the unary calls of a client.
func (i *ClientInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			if err := i.wait(ctx, req.Spec()); err != nil {
				return nil, err
			}
		}
		return next(ctx, req)
	}
}

// WrapStreamingClient delays the streams of a client. Each use of a stream that was not sent returns the error.
func (i *ClientInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		if err := i.wait(ctx, spec); err != nil {
			return &unsent{spec, http.Header{}, err}
		}
		return next(ctx, spec)
	}
}

// WrapStreamingHandler does nothing.
func (i *ClientInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// wait returns the error of a call that must not be sent.
func (i *ClientInterceptor) wait(ctx context.Context, spec connect.Spec) error {
	verdict, err := i.limit.Wait(ctx, &Call{Context: ctx, Spec: spec})
	switch {
	case verdict == policy.Allowed:
		return nil
	case ctx.Err() != nil:
		return ended(ctx.Err())
	case verdict == policy.Refused:
		return connect.NewError(connect.CodeResourceExhausted, err)
	default:
		return unavailable()
	}
}

// unsent is a stream that ended before it began.
type unsent struct {
	spec   connect.Spec
	header http.Header
	err    error
}

func (u *unsent) Spec() connect.Spec           { return u.spec }
func (u *unsent) Peer() connect.Peer           { return connect.Peer{} }
func (u *unsent) Send(any) error               { return u.err }
func (u *unsent) RequestHeader() http.Header   { return u.header }
func (u *unsent) CloseRequest() error          { return u.err }
func (u *unsent) Receive(any) error            { return u.err }
func (u *unsent) ResponseHeader() http.Header  { return http.Header{} }
func (u *unsent) ResponseTrailer() http.Header { return http.Header{} }
func (u *unsent) CloseResponse() error         { return u.err }
