package connectlimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
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
	// FailClosed ends them with CodeUnavailable.
	FailClosed = policy.FailClosed
)

// Options configure an [Interceptor]: its Policies, and what happens when a limiter fails.
type Options = policy.Options[*Call]

// An Interceptor limits the calls to handlers. It is a [connect.Interceptor]; in a client it does nothing. Its
// methods may be called by many goroutines at once.
//
// It costs at most one round trip for each policy. The ctx of a call ends early when the call loses its place
// of a concurrency limit. A stream counts as one call.
type Interceptor struct{ set *policy.Set[*Call] }

var _ connect.Interceptor = (*Interceptor)(nil)

// New returns an Interceptor. It sends nothing. The error joins all that is wrong
// with the options.
func New(opts Options) (*Interceptor, error) {
	set, err := policy.New(opts)
	if err != nil {
		return nil, err
	}
	return &Interceptor{set}, nil
}

// WrapUnary limits the unary calls of a handler.
func (i *Interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if req.Spec().IsClient {
			return next(ctx, req)
		}
		a := i.set.Admit(ctx, &Call{Context: ctx, Spec: req.Spec(), Peer: req.Peer(), Header: req.Header()})
		defer a.End() // also when next panics
		if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
			setFields(info.ResponseHeader(), a)
		}
		if err := refusal(ctx, a); err != nil {
			return nil, err
		}
		return next(a.Context, req)
	}
}

// WrapStreamingHandler limits the streams of a handler.
func (i *Interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		a := i.set.Admit(ctx, &Call{Context: ctx, Spec: conn.Spec(), Peer: conn.Peer(), Header: conn.RequestHeader()})
		defer a.End()
		setFields(conn.ResponseHeader(), a)
		if err := refusal(ctx, a); err != nil {
			return err
		}
		return next(a.Context, conn)
	}
}

// WrapStreamingClient does nothing.
func (i *Interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// setFields adds the RateLimit fields. Another Interceptor may have set its own: the fields are lists.
func setFields(header http.Header, a *policy.Admission) {
	if policies, limits := a.Fields(); policies != "" {
		header.Add(policy.PolicyField, policies)
		header.Add(policy.LimitField, limits)
	}
}

// refusal is the error of a call that must not be served.
func refusal(ctx context.Context, a *policy.Admission) error {
	var refused *connect.Error
	var details []proto.Message
	switch {
	case a.Verdict == policy.Allowed:
		return nil
	case ctx.Err() != nil:
		return ended(ctx.Err())
	case a.Verdict == policy.Failed:
		refused = unavailable()
	default:
		refused = connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the limit %q is exceeded", a.Policy))
		details = append(details, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			Subject: a.Policy, Description: "as many calls as the limit allows have been made",
		}}})
	}
	pushback := int64(-1) // never
	if a.RetryAfter != ratelimit.Never {
		pushback = int64((a.RetryAfter + time.Millisecond - 1) / time.Millisecond)
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(a.RetryAfter)})
		refused.Meta().Set(policy.RetryField, a.RetrySeconds())
	}
	refused.Meta().Set("Grpc-Retry-Pushback-Ms", strconv.FormatInt(pushback, 10))
	for _, d := range details {
		if detail, err := connect.NewErrorDetail(d); err == nil {
			refused.AddDetail(detail)
		}
	}
	return refused
}

func unavailable() *connect.Error {
	return connect.NewError(connect.CodeUnavailable, errors.New("the rate limit can't be checked at the moment"))
}

// ended is the error of a call whose ctx has ended with err.
func ended(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	}
	return connect.NewError(connect.CodeCanceled, err)
}
