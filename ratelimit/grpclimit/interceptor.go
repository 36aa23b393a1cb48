package grpclimit

import (
	"context"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit/policy"
)

// A Policy is one limit on calls, with its Name, its Limiter or Concurrency, and the Key
// that tells calls apart.
type Policy = policy.Policy[*Call]

// A FailureMode is what happens to calls while a limiter can't answer.
type FailureMode = policy.FailureMode

const (
	// FailOpen lets them pass. This is the default.
	FailOpen = policy.FailOpen
	// FailClosed ends them with Unavailable.
	FailClosed = policy.FailClosed
)

// Options configure an [Interceptor]. Policies must be set.
type Options struct {
	// Policies are checked in their order. At least one is needed.
	Policies []Policy

	// Skip exempts a call from all policies, a health check for instance. Defaults to
	// none.
	Skip func(*Call) bool

	// OnFailure is what happens to a call when a limiter returns an error.
	// Defaults to FailOpen.
	OnFailure FailureMode

	// OnError is called with each such error and the name of the policy, by many
	// goroutines at once. Defaults to nothing.
	OnError func(c *Call, policy string, err error)

	// Timeout is how long a policy waits for its limiter. After it the call is treated
	// as after an error. Defaults to 1 s.
	Timeout time.Duration
}

// An Interceptor limits the calls to a server. Its methods may be called by many
// goroutines at once.
type Interceptor struct{ set *policy.Set[*Call] }

// New returns an Interceptor. It sends nothing. The error joins all that is wrong
// with the options.
func New(opts Options) (*Interceptor, error) {
	set, err := policy.New(policy.Options[*Call]{
		Policies:  opts.Policies,
		Skip:      opts.Skip,
		OnFailure: opts.OnFailure,
		OnError:   opts.OnError,
		Timeout:   opts.Timeout,
	})
	if err != nil {
		return nil, err
	}
	return &Interceptor{set}, nil
}

// Unary is a [grpc.UnaryServerInterceptor]. It costs at most one round trip for each
// policy. The ctx of a call ends early when the call loses its place of a concurrency
// limit.
func (i *Interceptor) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	a := i.set.Admit(ctx, &Call{Context: ctx, Method: info.FullMethod})
	defer a.End() // also when handler panics
	// Neither fails before the handler has sent something.
	_ = grpc.SetHeader(ctx, header(a))
	_ = grpc.SetTrailer(ctx, trailer(a))
	if err := refusal(ctx, a); err != nil {
		return nil, err
	}
	return handler(a.Context, req)
}

// Stream is a [grpc.StreamServerInterceptor]. It does what [Interceptor.Unary] does, once
// for each stream.
func (i *Interceptor) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := stream.Context()
	a := i.set.Admit(ctx, &Call{Context: ctx, Method: info.FullMethod})
	defer a.End()
	_ = stream.SetHeader(header(a)) // as in Unary
	stream.SetTrailer(trailer(a))
	if err := refusal(ctx, a); err != nil {
		return err
	}
	return handler(srv, &within{stream, a.Context})
}

// within is a stream with another ctx.
type within struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // that is how a stream has one
}

func (s *within) Context() context.Context { return s.ctx }

// header returns the RateLimit fields. The draft forbids them in trailers.
func header(a *policy.Admission) metadata.MD {
	policies, limits := a.Fields()
	if policies == "" {
		return nil
	}
	return metadata.Pairs(strings.ToLower(policy.PolicyField), policies, strings.ToLower(policy.LimitField), limits)
}

// trailer returns the pushback for clients with a retry policy; -1 is never.
func trailer(a *policy.Admission) metadata.MD {
	if a.Verdict == policy.Allowed {
		return nil
	}
	ms := int64(-1)
	if a.RetryAfter != ratelimit.Never {
		ms = int64((a.RetryAfter + time.Millisecond - 1) / time.Millisecond)
	}
	return metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(ms, 10))
}

// refusal is the error of a call that must not be served.
func refusal(ctx context.Context, a *policy.Admission) error {
	var s *status.Status
	var details []protoadapt.MessageV1
	switch {
	case a.Verdict == policy.Allowed:
		return nil
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case a.Verdict == policy.Failed:
		s = status.New(codes.Unavailable, "the rate limit can't be checked at the moment")
	default:
		s = status.Newf(codes.ResourceExhausted, "the limit %q is exceeded", a.Policy)
		details = append(details, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			Subject: a.Policy, Description: "as many calls as the limit allows have been made",
		}}})
	}
	if a.RetryAfter != ratelimit.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(a.RetryAfter)})
	}
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	return s.Err()
}
