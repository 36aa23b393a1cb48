package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt/ratelimit"
)

// A Limiter decides for a policy: a [ratelimit.Limiter], [ratelimit.Leased],
// [ratelimit.Window] or [ratelimit.Quota].
type Limiter interface {
	Allow(ctx context.Context, name string) (ratelimit.Decision, error)
}

// A refunder is a Limiter that takes back what it gave.
type refunder interface {
	Refund(ctx context.Context, name string, n int, id string) (ratelimit.Decision, error)
}

// A Policy is one limit on requests of type R.
type Policy[R any] struct {
	// Name is shown to clients, and begins the names that the limiter gets: "api" in
	// "api:192.0.2.7". It has 1 to 64 printable ASCII characters without a colon, doesn't
	// begin with '}', and is unique among the policies.
	Name string

	// Limiter gives one token for each request. Either it or Concurrency must be set.
	Limiter Limiter

	// Concurrency gives a place, which the request holds until it ends. Put it behind
	// policies that refuse more cheaply.
	Concurrency *ratelimit.Concurrency

	// Key tells requests apart: all requests with the same key share a limit, also
	// requests with the key "". A key may have any length and content; one that doesn't
	// fit into a name is hashed. Defaults to one limit for all requests.
	Key func(R) string

	// Skip exempts a request from the policy. Defaults to none.
	Skip func(R) bool
}

// A FailureMode is what happens to requests while a limiter can't answer.
type FailureMode uint8

const (
	// FailOpen lets them pass. This is the default.
	FailOpen FailureMode = iota
	// FailClosed refuses them.
	FailClosed
)

// Options configure a [Set]. Policies must be set.
type Options[R any] struct {
	// Policies are checked in their order. At least one is needed.
	Policies []Policy[R]

	// Skip exempts a request from all policies. Defaults to none.
	Skip func(R) bool

	// OnFailure is what happens to a request when a limiter returns an error.
	// Defaults to FailOpen.
	OnFailure FailureMode

	// OnError is called with each such error and the name of the policy, by many
	// goroutines at once. Defaults to nothing.
	OnError func(r R, policy string, err error)

	// Timeout is how long a policy waits for its limiter. After it the request is treated
	// as after an error. Defaults to 1 s.
	Timeout time.Duration
}

const defaultTimeout = time.Second

// A Set decides on requests by its policies. Its methods may be called by many
// goroutines at once. It keeps nothing between requests.
type Set[R any] struct{ opts Options[R] }

// New returns a Set. It sends nothing. The error joins all that is wrong with
// the options.
func New[R any](opts Options[R]) (*Set[R], error) {
	var errs []error
	if len(opts.Policies) == 0 {
		errs = append(errs, errors.New("ratelimit: there are no policies; want at least one"))
	}
	seen := map[string]bool{}
	for i, p := range opts.Policies {
		if !validName(p.Name) {
			errs = append(errs, fmt.Errorf("ratelimit: policy %d is called %q; want 1 to %d printable characters of ASCII, no colon, and not '}' first", i, p.Name, maxPolicyName))
		}
		if seen[p.Name] {
			errs = append(errs, fmt.Errorf("ratelimit: two policies are called %q; want a name for each", p.Name))
		}
		seen[p.Name] = true
		if (p.Limiter == nil) == (p.Concurrency == nil) {
			errs = append(errs, fmt.Errorf("ratelimit: policy %q: want either a Limiter or a Concurrency", p.Name))
		}
	}
	if opts.OnFailure > FailClosed {
		errs = append(errs, fmt.Errorf("ratelimit: OnFailure is %d; want FailOpen or FailClosed", opts.OnFailure))
	}
	if opts.Timeout < 0 {
		errs = append(errs, fmt.Errorf("ratelimit: Timeout is %v; want more than 0", opts.Timeout))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if opts.Timeout == 0 {
		opts.Timeout = defaultTimeout
	}
	opts.Policies = append([]Policy[R](nil), opts.Policies...)
	return &Set[R]{opts}, nil
}
