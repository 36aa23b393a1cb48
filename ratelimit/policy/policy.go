package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redoubt-go/redoubt/ratelimit"
)

// A Limiter is what a policy asks: a [ratelimit.Limiter], a [ratelimit.Leased], a [ratelimit.Window],
// a [ratelimit.Quota].
type Limiter interface {
	Allow(ctx context.Context, name string) (ratelimit.Decision, error)
}

// A refunder is a Limiter that takes back what it gave.
type refunder interface {
	Refund(ctx context.Context, name string, n int, id string) (ratelimit.Decision, error)
}

// A Policy is one limit that requests of type R are held to.
type Policy[R any] struct {
	// Name is what callers are told, and the beginning of the names that the
	// limiter is asked for: "api" of "api:192.0.2.7". It is 1 to 64 printable
	// characters of ASCII without a colon, does not begin with '}', and is
	// another for each policy.
	Name string

	// Limiter is asked for one token a request. Either it or Concurrency is
	// set.
	Limiter Limiter

	// Concurrency is asked for a place, which the request has until it ends.
	// Put it behind policies that refuse more cheaply.
	Concurrency *ratelimit.Concurrency

	// Key says whose limit it is. All requests with the same key share it,
	// those with the key "" too. Keys of any length and content will do: what
	// doesn't fit into a name is hashed. Defaults to one limit for all.
	Key func(R) string

	// Skip reports that the policy does not hold for a request. Defaults to
	// none.
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
	// Policies are asked in their order, at least one.
	Policies []Policy[R]

	// Skip reports that no policy holds for a request. Defaults to none.
	Skip func(R) bool

	// OnFailure says what becomes of a request when a limiter gives an error.
	// Defaults to FailOpen.
	OnFailure FailureMode

	// OnError is told of each such error, with the name of the policy. It may
	// be called by many goroutines at once. Defaults to nothing.
	OnError func(r R, policy string, err error)

	// Timeout is how long a limiter has to answer before that counts as an
	// error. Defaults to 1 s.
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
