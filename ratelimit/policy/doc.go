// Package policy decides on requests by several limits with names, whatever
// brings the requests. It is what middleware is made of: httplimit and grpclimit
// are, and a middleware for another framework can be.
//
//	set, err := policy.New(policy.Options[*Request]{Policies: []policy.Policy[*Request]{
//		{Name: "api", Limiter: limits, Key: func(r *Request) string { return r.User }},
//	}})
//	…
//	a := set.Admit(ctx, request)
//	defer a.End()
//	if a.Verdict != policy.Allowed {
//		return refuse(a.Policy, a.RetryAfter)
//	}
//	return serve(a.Context, request)
//
// # What is promised
//
//   - A request passes all policies in their order. What one that is refused took
//     of those before is given back, where the limiter has a Refund or is a
//     concurrency limit. (TestRefusalGivesBack)
//   - When a limiter fails the request passes or not, as the options say; one
//     whose own ctx has ended never passes, so that nobody gets around a limit by
//     hanging up early. (TestFailure, TestWhoHangsUpDoesNotPass)
//   - What a limiter answers without its server, by ratelimit.Options.OnFailure, is
//     not shown to callers as its limit, nor given back to it. (TestDegraded)
//   - Of a concurrency limit the request holds its place until End, and is
//     prolonged meanwhile. (TestConcurrency)
//   - No key makes a name that the server refuses, nor one of another policy.
//     (TestNames)
package policy
