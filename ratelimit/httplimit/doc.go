// Package httplimit limits the requests to a net/http server, among all servers
// that use one Redis.
//
//	clients, err := httplimit.ClientIP(httplimit.IPOptions{Trusted: proxies})
//	…
//	limited, err := httplimit.New(httplimit.Options{Policies: []httplimit.Policy{
//		{Name: "api", Limiter: limits, Key: clients},
//	}})
//	…
//	http.ListenAndServe(addr, limited.Wrap(mux))
//
// The limiter is a ratelimit.Limiter, Leased, Window or Quota. A policy may also be a
// ratelimit.Concurrency: then a request holds a place until its handler returns
// (TestConcurrentRequests); a handler that goes on for long after its client has
// hung up may lose it to another.
// Several policies are asked in their order, and what a refused request took of
// those before is given back.
//
// # What clients are told
//
// Every response has the fields of draft-ietf-httpapi-ratelimit-headers-11,
//
//	RateLimit-Policy: "api";q=200;w=2
//	RateLimit: "api";r=199;t=1
//
// whose values package policy explains. A refused request gets 429, with
// Retry-After, which is never before t, and problem details (RFC 9457) of the
// draft's type quota-exceeded. (TestFields, TestRetryAfterComesTrue, TestProblem)
//
// # Whose limit it is
//
// [ClientIP] takes the address of the peer, or, if that is a proxy that is
// trusted, the rightmost address in the field of the proxies that is none of
// theirs: what is to the left of it a client can make up. Nothing is trusted
// unless it is said. (TestClientIP, TestClientIPCantBeMadeUp, FuzzClientIP)
//
// [Header] takes a field of the request, like an API key. Who makes up a key has
// a limit of his own: check the key before, or have a policy by address as well.
//
// # When the limiter can't be asked
//
// Requests pass, or get 503 with Options.OnFailure FailClosed (TestStoreFailure).
package httplimit
