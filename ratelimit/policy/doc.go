// Package policy checks requests against several named limits, in any protocol.
// Packages httplimit, grpclimit, connectlimit and fiberlimit are built on it; use it for middleware of another
// framework. [NewClient] is for the other side: it makes the calls of clients wait.
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
//   - A request passes all policies in their order. A refused request gets back what
//     it took from the earlier policies, where the limiter has a Refund or is a
//     concurrency limit.
//   - When a limiter fails, the options decide whether a request passes; a request
//     whose ctx has ended never passes, so hanging up early is no way around a limit.
//   - An answer that a limiter gives without its server is not shown to callers as
//     its limit, and is not refunded; see ratelimit.Options.OnFailure.
//   - A request holds its place of a concurrency limit until End, and the place is
//     extended meanwhile.
//   - A call of a client waits for its token, is refused if that comes after its deadline, and passes or fails as the
//     options decide when the limiter fails.
//   - No key makes a name that the server refuses, or a name of another policy.
//
// docs/promises.md names the tests that check each promise.
package policy
