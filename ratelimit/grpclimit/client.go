package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/redoubt-go/redoubt/ratelimit/policy"
)

// ClientOptions configure a [ClientInterceptor]: the Limiter to wait for, its Name, and a Key, which has the
// outgoing context of a call; [Method] is one.
type ClientOptions = policy.ClientOptions[*Call]

// A ClientInterceptor makes calls wait, so that the clients in all processes together stay within
// a limit of the server. Its methods may be called by many goroutines at once.
//
// A call waits for its token, in the order of all waiters. If the token comes after the call's
// deadline, the call ends at once with ResourceExhausted, and is not sent.
type ClientInterceptor struct{ limit *policy.Client[*Call] }

// NewClient returns a ClientInterceptor. It sends nothing. The error joins all that is wrong
// with the options.
func NewClient(opts ClientOptions) (*ClientInterceptor, error) {
	limit, err := policy.NewClient(opts)
	if err != nil {
		return nil, err
	}
	return &ClientInterceptor{limit}, nil
}

// Unary is a [grpc.UnaryClientInterceptor]. It costs one round trip before the call, whether the call
// waits or not.
func (i *ClientInterceptor) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := i.wait(ctx, method); err != nil {
		return err
	}
	return invoker(ctx, method, req, reply, cc, opts...)
}

// Stream is a [grpc.StreamClientInterceptor]. A stream counts as one call, whatever its messages.
func (i *ClientInterceptor) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := i.wait(ctx, method); err != nil {
		return nil, err
	}
	return streamer(ctx, desc, cc, method, opts...)
}

// wait returns the error of a call that must not be sent.
func (i *ClientInterceptor) wait(ctx context.Context, method string) error {
	verdict, err := i.limit.Wait(ctx, &Call{Context: ctx, Method: method})
	switch {
	case verdict == policy.Allowed:
		return nil
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case verdict == policy.Refused:
		return status.Error(codes.ResourceExhausted, err.Error())
	default:
		return status.Error(codes.Unavailable, "the rate limit can't be checked at the moment")
	}
}
