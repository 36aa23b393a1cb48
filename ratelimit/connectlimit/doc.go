// Package connectlimit limits the calls to handlers of connectrpc.com/connect, among all servers that use one
// Redis, and the calls of their clients. It is a module of its own, so that the rest of Redoubt doesn't depend on
// Connect.
//
//	clients, err := httplimit.ClientIP(httplimit.IPOptions{Trusted: proxies})
//	…
//	limited, err := connectlimit.New(connectlimit.Options{Policies: []connectlimit.Policy{
//		{Name: "api", Limiter: limits, Key: connectlimit.FromHTTP(clients)},
//	}})
//	…
//	mux.Handle(pingv1connect.NewPingServiceHandler(ping, connect.WithInterceptors(limited)))
//
// The limiter is a ratelimit.Limiter, Leased, Window or Quota. A stream counts as one
// call, whatever its messages. With a ratelimit.Concurrency instead, a call holds a
// place until its handler returns. Several policies are checked in their order. A
// refused call gets back what it took from the earlier ones.
//
// On the other side of the connection [NewClient] makes calls wait, so that all clients
// together keep to a limit of the server.
//
// # What clients see
//
// Every response has the header fields of httplimit, RateLimit-Policy and RateLimit, in all three protocols:
// Connect, gRPC and gRPC-Web. A refused call ends with CodeResourceExhausted, with the details RetryInfo
// (how long to wait) and QuotaFailure (the policy). Retry-After and, for gRPC clients that retry by
// themselves, grpc-retry-pushback-ms are in the metadata of the error.
//
// The middleware of httplimit in front of a handler limits as well. But it answers 429, and Connect's and
// gRPC's clients make CodeUnavailable of that, without the details.
//
// # Keys
//
// [FromHTTP] makes a key of one for net/http, such as httplimit.ClientIP and httplimit.Header. [Procedure] is the
// called method. Or write a function of your own.
//
// # When a limiter fails
//
// Calls pass by default. With Options.OnFailure set to FailClosed they end with
// CodeUnavailable.
//
// docs/promises.md names the tests that check these promises.
package connectlimit
