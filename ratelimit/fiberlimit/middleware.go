package fiberlimit

import (
	"net/http"
	"net/url"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/redoubt-go/redoubt/ratelimit/policy"
)

// A Policy is one limit on requests, with its Name, its Limiter or Concurrency, and the Key
// that tells requests apart.
type Policy = policy.Policy[fiber.Ctx]

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
	Skip func(fiber.Ctx) bool

	// OnFailure is what happens to a request when a limiter returns an error.
	// Defaults to FailOpen.
	OnFailure FailureMode

	// OnError is called with each such error and the name of the policy, by many
	// goroutines at once. Defaults to nothing.
	OnError func(c fiber.Ctx, policy string, err error)

	// Timeout is how long a policy waits for its limiter. After it the request is treated
	// as after an error. Defaults to 1 s.
	Timeout time.Duration

	// Refused answers refused requests. The RateLimit fields are set, the status is not.
	// Defaults to 429 with problem details.
	Refused fiber.Handler
}

// A Middleware limits the requests to handlers. Its methods may be called by
// many goroutines at once.
type Middleware struct {
	set     *policy.Set[fiber.Ctx]
	refused fiber.Handler
}

// New returns a Middleware. It sends nothing. The error joins all that is wrong
// with the options.
func New(opts Options) (*Middleware, error) {
	set, err := policy.New(policy.Options[fiber.Ctx]{
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

// Handle is a [fiber.Handler] for App.Use. It passes allowed requests to the next handler. It costs at most one round
// trip for each policy. The Context of a request ends early when it loses its place of a concurrency limit; Fiber does
// not end it when the client hangs up.
func (m *Middleware) Handle(c fiber.Ctx) error {
	before := c.Context()
	a := m.set.Admit(before, c)
	defer a.End() // also when the next handler panics
	if policies, limits := a.Fields(); policies != "" {
		// Another Middleware may have set its own: the fields are lists.
		c.RequestCtx().Response.Header.Add(policy.PolicyField, policies)
		c.RequestCtx().Response.Header.Add(policy.LimitField, limits)
	}
	if a.Verdict == policy.Allowed {
		if a.Context != before {
			c.SetContext(a.Context)
			defer c.SetContext(before)
		}
		return c.Next()
	}
	if after := a.RetrySeconds(); after != "" {
		c.Set(policy.RetryField, after)
	}
	if a.Verdict == policy.Refused && m.refused != nil {
		return m.refused(c)
	}
	status, body := a.Problem()
	c.Set(fiber.HeaderContentType, policy.ProblemType)
	c.Set(fiber.HeaderCacheControl, "no-store") // it is valid only now
	return c.Status(status).Send(body)
}

// FromHTTP returns a Key for Fiber. It passes to key a request with the context, method, URL, host, header and peer,
// and without a body. The request is valid until key returns.
func FromHTTP(key func(*http.Request) string) func(fiber.Ctx) string {
	return func(c fiber.Ctx) string {
		ctx := c.RequestCtx()
		r := &http.Request{
			Method: c.Method(), URL: &url.URL{Path: string(ctx.Path())}, RequestURI: string(ctx.RequestURI()), Host: string(ctx.Host()),
			Header: http.Header{}, RemoteAddr: ctx.RemoteAddr().String(), TLS: ctx.TLSConnectionState(), Body: http.NoBody,
		}
		if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
			r.URL = u
		}
		// A field may stand in the request several times.
		for name, value := range ctx.Request.Header.All() {
			r.Header.Add(string(name), string(value))
		}
		return key(r.WithContext(c.Context()))
	}
}
