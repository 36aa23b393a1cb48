package policy

import (
	"context"
	"time"

	"github.com/redoubt-go/redoubt/ratelimit"
)

// Verdict is the outcome of an [Admission].
type Verdict uint8

const (
	// Allowed means that the request may be served.
	Allowed Verdict = iota
	// Refused means that the request is over a limit.
	Refused
	// Failed means that the request must not be served because a limiter failed, or
	// because the request has ended already.
	Failed
)

// An Answer is the decision of one policy.
type Answer struct {
	// Policy is the name of the policy.
	Policy string
	// Concurrent tells that the policy limits concurrent requests, which have no
	// window.
	Concurrent bool
	ratelimit.Decision
}

// An Admission is the decision on one request.
type Admission struct {
	Verdict Verdict

	// Policy is the name of the policy that refused the request, or failed.
	Policy string

	// RetryAfter is how long a refused client should wait: 1 s where the time is unknown,
	// as with a concurrency limit, and [ratelimit.Never] if the request can never pass.
	RetryAfter time.Duration

	// Answers are the decisions of the checked policies, in their order, without the ones
	// that a limiter made without its server. A refused request has only the last one,
	// because it gives back what the others gave.
	Answers []Answer

	// Context is the context to serve the request with. It ends when the request loses
	// its place of a concurrency limit.
	Context context.Context //nolint:containedctx // it is a result

	undo []func(context.Context) // gives back what was taken, after a refusal
	ends []func()                // ends the places that the request holds
}

// End gives back the places of concurrency limits. The caller must call it when the
// request has ended, whatever the verdict; it may be called more than once.
func (a *Admission) End() {
	for _, end := range a.ends {
		end()
	}
	a.ends = nil
}

// unknownRetry is the RetryAfter when the time is unknown.
const unknownRetry = time.Second

// Admit checks the policies for r, one after the other. It costs at most one round trip
// for each policy, and after a refusal one for each policy that gets something back.
func (s *Set[R]) Admit(ctx context.Context, r R) *Admission {
	a := &Admission{Context: ctx}
	if s.opts.Skip != nil && s.opts.Skip(r) {
		return a
	}
	for _, p := range s.opts.Policies {
		if p.Skip != nil && p.Skip(r) {
			continue
		}
		d, err := s.ask(a, p, r)
		switch {
		case err != nil:
			// The limiter is not to blame when the request has ended, and serving
			// the request would be a way around the limit.
			if ended := ctx.Err() != nil; ended || s.fails(r, p.Name, err) {
				a.stop(Failed, p.Name, unknownRetry)
				return a
			}
		case d.Degraded != nil && d.Violated < 0:
			// Options.OnFailure decided: the answer says nothing about the limit.
			if !d.Allowed {
				a.stop(Failed, p.Name, max(d.RetryAfter, unknownRetry))
				return a
			}
		case d.Allowed:
			a.Answers = append(a.Answers, Answer{p.Name, p.Concurrency != nil, d})
		default:
			after := d.RetryAfter
			if p.Concurrency != nil {
				after = unknownRetry // RetryAfter is when the place of a dead process comes back
			}
			a.stop(Refused, p.Name, after)
			a.Answers = []Answer{{p.Name, p.Concurrency != nil, d}}
			return a
		}
	}
	return a
}

// fails reports whether a request must not pass because of err.
func (s *Set[R]) fails(r R, policy string, err error) bool {
	if s.opts.OnError != nil {
		s.opts.OnError(r, policy, err)
	}
	return s.opts.OnFailure == FailClosed
}

// ask checks one policy, and notes in a how to give back what it gave.
func (s *Set[R]) ask(a *Admission, p Policy[R], r R) (ratelimit.Decision, error) {
	name := p.name(r)
	ctx, cancel := context.WithTimeout(a.Context, s.opts.Timeout)
	defer cancel()
	if p.Concurrency != nil {
		call, d, err := p.Concurrency.Begin(ctx, name)
		if err == nil && call != nil {
			within, end := call.KeepAlive(a.Context)
			a.Context, a.ends = within, append(a.ends, end)
		}
		return d, err
	}
	d, err := p.Limiter.Allow(ctx, name)
	if back, ok := p.Limiter.(refunder); ok && err == nil && d.Allowed && d.Degraded == nil {
		a.undo = append(a.undo, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
			defer cancel()
			_, _ = back.Refund(ctx, name, 1, "") // if it fails, the limit is stricter for a while
		})
	}
	return d, err
}

// stop gives back what was taken.
func (a *Admission) stop(v Verdict, policy string, after time.Duration) {
	a.Verdict, a.Policy, a.RetryAfter, a.Answers = v, policy, after, nil
	ctx := context.WithoutCancel(a.Context)
	a.End()
	for _, undo := range a.undo {
		undo(ctx)
	}
}
