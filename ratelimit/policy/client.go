package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/redoubt-go/redoubt/ratelimit"
)

// A Waiter blocks until a token of the limit called name is there: a [ratelimit.Limiter].
type Waiter interface {
	Wait(ctx context.Context, name string) error
}

// ClientOptions configure a [Client]. Limiter and Name must be set.
type ClientOptions[R any] struct {
	// Limiter gives one token for each call.
	Limiter Waiter

	// Name is the name of the limit, the called service for instance.
	Name string

	// Key tells calls apart: calls with the same key share a limit, which is called
	// "name:key". Defaults to one limit for all calls.
	Key func(R) string

	// OnFailure is what happens to a call when the limiter returns an error. Defaults to
	// FailOpen.
	OnFailure FailureMode

	// OnError is called with each such error, by many goroutines at once. Defaults to
	// nothing.
	OnError func(r R, err error)
}

// A Client delays the calls of clients, in all processes together, so that they keep to a limit of the
// server. Its methods may be called by many goroutines at once. It keeps nothing between calls.
type Client[R any] struct{ opts ClientOptions[R] }

// NewClient returns a Client. It sends nothing. The error joins all that is wrong with the
// options.
func NewClient[R any](opts ClientOptions[R]) (*Client[R], error) {
	var errs []error
	if opts.Limiter == nil {
		errs = append(errs, errors.New("ratelimit: Limiter is nil; want a ratelimit.Limiter"))
	}
	if opts.Name == "" {
		errs = append(errs, errors.New("ratelimit: Name is empty; want the name of the limit"))
	}
	if opts.OnFailure > FailClosed {
		errs = append(errs, fmt.Errorf("ratelimit: OnFailure is %d; want FailOpen or FailClosed", opts.OnFailure))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Client[R]{opts}, nil
}

// Wait blocks until r may be sent, in the order of all waiters. It costs one round trip, also for a call that
// waits. A call is Refused at once if its token would come after ctx's deadline, and Failed if ctx has ended or
// if the limiter fails with FailClosed; the error says why, and is nil for an allowed call.
func (c *Client[R]) Wait(ctx context.Context, r R) (Verdict, error) {
	name := c.opts.Name
	if c.opts.Key != nil {
		name += ":" + c.opts.Key(r)
	}
	err := c.opts.Limiter.Wait(ctx, name)
	switch {
	case err == nil:
		return Allowed, nil
	case ctx.Err() != nil:
		return Failed, ctx.Err()
	case errors.Is(err, ratelimit.ErrTooLate), errors.Is(err, ratelimit.ErrExceedsBurst):
		return Refused, err
	}
	if c.opts.OnError != nil {
		c.opts.OnError(r, err)
	}
	if c.opts.OnFailure == FailClosed {
		return Failed, err
	}
	return Allowed, nil
}
