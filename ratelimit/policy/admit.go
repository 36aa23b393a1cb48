package policy

import (
	"context"
	"time"

	"github.com/redoubt-go/redoubt/ratelimit"
)

// Verdict is the outcome of an [Admission].
type Verdict uint8

const (
	// Allowed is for a request that may be served.
	Allowed Verdict = iota
	// Refused is for one that is over a limit.
	Refused
	// Failed is for one that must not be served because a limiter could not be
	// asked, or because it has ended already.
	Failed
)

// An Answer is what one policy said.
type Answer struct {
	// Policy is its name.
	Policy string
	// Concurrent tells that the policy counts calls that are under way. They
	// have no window.
	Concurrent bool
	ratelimit.Decision
}

// An Admission is the answer to one request.
type Admission struct {
	Verdict Verdict

	// Policy is the name of the one that refused or failed.
	Policy string

	// RetryAfter is after what time a refused request may come again: at least
	// 1 s where nobody knows, as of calls that are under way, and
	// [ratelimit.Never] if it never may.
	RetryAfter time.Duration

	// Answers are of the policies that were asked and answered by their limit,
	// in their order: of a refused request that of the last alone, since what the others
	// gave is given back.
	Answers []Answer

	// Context is the one to serve the request with: it ends when a place of a
	// concurrency limit is lost.
	Context context.Context //nolint:containedctx // it is a result

	undo []func(context.Context) // what a refusal gives back
	ends []func()                // of the places that are held
}

// End gives up the places of concurrency limits. It must be called when the
// request has ended, whatever the verdict, and may be called again.
func (a *Admission) End() {
	for _, end := range a.ends {
		end()
	}
	a.ends = nil
}

// unknownRetry is when to come again if nobody knows when there is room.
const unknownRetry = time.Second

// Admit asks the policies for r, one after the other: at most one round trip
// each, and one for each that gives back.
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
			// An ended request is no reason to think ill of the limiter, and
			// serving it would be a way around the limit.
			if ended := ctx.Err() != nil; ended || s.fails(r, p.Name, err) {
				a.stop(Failed, p.Name, unknownRetry)
				return a
			}
		case d.Degraded != nil && d.Violated < 0:
			// It is the choice of Options.OnFailure, and tells nothing of the
			// limit.
			if !d.Allowed {
				a.stop(Failed, p.Name, max(d.RetryAfter, unknownRetry))
				return a
			}
		case d.Allowed:
			a.Answers = append(a.Answers, Answer{p.Name, p.Concurrency != nil, d})
		default:
			after := d.RetryAfter
			if p.Concurrency != nil {
				after = unknownRetry // RetryAfter is when a dead process's place is free
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

// ask asks one policy, and notes in a how to give back what it gave.
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
			_, _ = back.Refund(ctx, name, 1, "") // the limit is stricter for a while otherwise
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
