// Package grpclimit limits the calls to a gRPC server, among all servers that use
// one Redis, and the calls of gRPC clients. It is a module of its own, so that the rest of Redoubt doesn't depend on
// gRPC.
//
//	limited, err := grpclimit.New(grpclimit.Options{Policies: []grpclimit.Policy{
//		{Name: "api", Limiter: limits, Key: grpclimit.PeerIP},
//	}})
//	…
//	grpc.NewServer(grpc.UnaryInterceptor(limited.Unary), grpc.StreamInterceptor(limited.Stream))
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
// The header of every call has the fields of httplimit, "ratelimit-policy" and
// "ratelimit". A refused call ends with ResourceExhausted, with the details RetryInfo
// (how long to wait) and QuotaFailure (the policy). The trailer grpc-retry-pushback-ms
// tells the same to clients that retry by themselves.
//
// # Keys
//
// [PeerIP], [ClientIP] behind proxies, [Metadata], [Method], or a function of your own.
//
// # When a limiter fails
//
// Calls pass by default. With Options.OnFailure set to FailClosed they end with
// Unavailable.
//
// docs/promises.md names the tests that check these promises.
package grpclimit
