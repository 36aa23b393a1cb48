package httplimit

import (
	"net/http"
	"time"

	"github.com/redoubt-go/redoubt/ratelimit/policy"
)

// A Policy is one limit on requests, with its Name, its Limiter or Concurrency, and the Key
// that tells requests apart.
type Policy = policy.Policy[*http.Request]

// A FailureMode is what happens to requests while a limiter can't answer.
type FailureMode = policy.FailureMode

const (
	// FailOpen lets them pass. This is the default.
	FailOpen = policy.FailOpen
	// FailClosed answers 503.
	FailClosed = policy.FailClosed
)

// Options configure a [Middleware]. Policies must be set.
type Options struct {
	// Policies are checked in their order. At least one is needed.
	Policies []Policy

	// Skip exempts a request from all policies, a health check for instance. Defaults to
	// none.
	Skip func(*http.Request) bool

	// OnFailure is what happens to a request when a limiter returns an error.
	// Defaults to FailOpen.
	OnFailure FailureMode

	// OnError is called with each such error and the name of the policy, by many
	// goroutines at once. Defaults to nothing.
	OnError func(r *http.Request, policy string, err error)

	// Timeout is how long a policy waits for its limiter. After it the request is treated
	// as after an error. Defaults to 1 s.
	Timeout time.Duration

	// Refused answers refused requests. The RateLimit fields are set, the status is not.
	// Defaults to 429 with problem details.
	Refused http.Handler
}

// A Middleware limits the requests to a handler. Its methods may be called by
// many goroutines at once.
type Middleware struct {
	set     *policy.Set[*http.Request]
	refused http.Handler
}

// New returns a Middleware. It sends nothing. The error joins all that is wrong
// with the options.
func New(opts Options) (*Middleware, error) {
	set, err := policy.New(policy.Options[*http.Request]{
		Policies:  opts.Policies,
		Skip:      opts.Skip,
		OnFailure: opts.OnFailure,
		OnError:   opts.OnError,
		Timeout:   opts.Timeout,
	})
	if err != nil {
		return nil, err
	}
	return &Middleware{set: set, refused: opts.Refused}, nil
}

// Wrap returns a handler that passes allowed requests to next. It costs at most one round
// trip for each policy. The ctx of a request ends early when it loses its place of a
// concurrency limit.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := m.set.Admit(r.Context(), r)
		defer a.End() // also when next panics
		if policies, limits := a.Fields(); policies != "" {
			// Another Middleware may have set its own: the fields are lists.
			w.Header().Add(policy.PolicyField, policies)
			w.Header().Add(policy.LimitField, limits)
		}
		if a.Verdict == policy.Allowed {
			if a.Context != r.Context() {
				r = r.WithContext(a.Context)
			}
			next.ServeHTTP(w, r)
			return
		}
		if after := a.RetrySeconds(); after != "" {
			w.Header().Set(policy.RetryField, after)
		}
		if a.Verdict == policy.Refused && m.refused != nil {
			m.refused.ServeHTTP(w, r)
			return
		}
		status, body := a.Problem()
		w.Header().Set("Content-Type", policy.ProblemType)
		w.Header().Set("Cache-Control", "no-store") // it is valid only now
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client may have hung up
	})
}
