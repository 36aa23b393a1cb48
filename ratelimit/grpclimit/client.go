package grpclimit

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/redoubt-go/redoubt/ratelimit"
)

// A Waiter blocks until a token of the limit called name is there: a [ratelimit.Limiter].
type Waiter interface {
	Wait(ctx context.Context, name string) error
}

// ClientOptions configure a [ClientInterceptor]. Limiter and Name must be set.
type ClientOptions struct {
	// Limiter gives one token for each call.
	Limiter Waiter

	// Name is the name of the limit, the called service for instance.
	Name string

	// Key tells calls apart: calls with the same key share a limit, which is called
	// "name:key". It has the outgoing context of a call; [Method] is one. Defaults to one
	// limit for all calls.
	Key func(*Call) string

	// OnFailure says what happens to a call when the limiter returns an error. Defaults to
	// FailOpen.
	OnFailure FailureMode

	// OnError is called with each such error, by many goroutines at once. Defaults to
	// nothing.
	OnError func(c *Call, err error)
}

// A ClientInterceptor makes calls wait, so that the clients in all processes together stay within
// a limit of the server. Its methods may be called by many goroutines at once.
//
// A call waits for its token, in the order of all waiters. If the token comes after the call's
// deadline, the call ends at once with ResourceExhausted, and is not sent.
type ClientInterceptor struct{ opts ClientOptions }

// NewClient returns a ClientInterceptor. It sends nothing. The error joins all that is wrong
// with the options.
func NewClient(opts ClientOptions) (*ClientInterceptor, error) {
	var errs []error
	if opts.Limiter == nil {
		errs = append(errs, errors.New("grpclimit: Limiter is nil; want a ratelimit.Limiter"))
	}
	if opts.Name == "" {
		errs = append(errs, errors.New("grpclimit: Name is empty; want the name of the limit"))
	}
	if opts.OnFailure > FailClosed {
		errs = append(errs, fmt.Errorf("grpclimit: OnFailure is %d; want FailOpen or FailClosed", opts.OnFailure))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &ClientInterceptor{opts}, nil
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
	c := &Call{Context: ctx, Method: method}
	name := i.opts.Name
	if i.opts.Key != nil {
		name += ":" + i.opts.Key(c)
	}
	err := i.opts.Limiter.Wait(ctx, name)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, ratelimit.ErrTooLate), errors.Is(err, ratelimit.ErrExceedsBurst):
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	if i.opts.OnError != nil {
		i.opts.OnError(c, err)
	}
	if i.opts.OnFailure == FailClosed {
		return status.Error(codes.Unavailable, "the rate limit can't be checked at the moment")
	}
	return nil
}
