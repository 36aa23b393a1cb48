// Package grpclimit limits the calls to a gRPC server, among all servers that use
// one Redis. It is a module of its own, so that who uses the rest does not get
// gRPC.
//
//	limited, err := grpclimit.New(grpclimit.Options{Policies: []grpclimit.Policy{
//		{Name: "api", Limiter: limits, Key: grpclimit.PeerIP},
//	}})
//	…
//	grpc.NewServer(grpc.UnaryInterceptor(limited.Unary), grpc.StreamInterceptor(limited.Stream))
//
// The limiter is a ratelimit.Limiter, Leased, Window or Quota; a stream is one call,
// whatever its messages. A policy may also be a ratelimit.Concurrency: then a call
// holds a place until its handler returns. Several policies are asked in their
// order, and what a refused call took of those before is given back.
//
// # What clients are told
//
// The header of every call has the fields of httplimit, "ratelimit-policy" and
// "ratelimit". A call that is refused ends with ResourceExhausted, with the details
// RetryInfo, how long to wait, and QuotaFailure, of which policy; the trailer
// grpc-retry-pushback-ms tells the same to clients that retry by themselves.
// (TestUnary, TestStream)
//
// # Whose limit it is
//
// [PeerIP], [ClientIP] behind proxies, [Metadata], [Method], or any function.
// (TestKeys)
//
// # When the limiter can't be asked
//
// Calls pass, or end with Unavailable with Options.OnFailure FailClosed
// (TestStoreFailure).
package grpclimit
