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
// The program examples/ratelimit is a server with such a limit.
//
// The limiter is a ratelimit.Limiter, Leased, Window or Quota. With a
// ratelimit.Concurrency instead, a request holds a place until its handler returns; a
// handler that runs long after its client has hung up may lose the place to another
// request. Several policies are checked in their order. A refused request gets back
// what it took from the earlier ones.
//
// # What clients see
//
// Every response has the fields of draft-ietf-httpapi-ratelimit-headers-11,
//
//	RateLimit-Policy: "api";q=200;w=2
//	RateLimit: "api";r=199;t=1
//
// Package policy explains their values. A refused request gets status 429 with
// Retry-After, which is never earlier than t, and problem details (RFC 9457) of the
// draft's type quota-exceeded.
//
// # Keys
//
// [ClientIP] gives spoof-proof client addresses: the address of the peer or, if the
// peer is a trusted proxy, the rightmost address in the proxies' header field that is
// not a trusted proxy. A client can forge everything to the left of it. Nothing is
// trusted by default.
//
// [Header] takes a header field, like an API key. A client that invents keys gets a new
// limit with each: check the key first, or add a policy by address.
//
// # When a limiter fails
//
// Requests pass by default. With Options.OnFailure set to FailClosed they get 503.
//
// docs/promises.md names the tests that check these promises.
package httplimit
