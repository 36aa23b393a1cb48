// Package fiberlimit limits the requests to a server of Fiber v3, among all servers that use one Redis. It is a
// module of its own, so that the rest of Redoubt doesn't depend on Fiber.
//
//	clients, err := httplimit.ClientIP(httplimit.IPOptions{Trusted: proxies})
//	…
//	limited, err := fiberlimit.New(fiberlimit.Options{Policies: []fiberlimit.Policy{
//		{Name: "api", Limiter: limits, Key: fiberlimit.FromHTTP(clients)},
//	}})
//	…
//	app.Use(limited.Handle)
//
// It does for Fiber what package httplimit does for net/http: clients see the same status, header fields and problem
// details, and keys and limiters are the same. With a ratelimit.Concurrency a request holds a place until its
// handler returns; a body that is streamed after that holds none.
//
// Fiber's adaptor.HTTPMiddleware can't carry httplimit. It runs the handler when the middleware has returned, so that
// a place of a concurrency limit would be free already. And of several fields X-Forwarded-For it keeps the last.
//
// # Keys
//
// [FromHTTP] makes a key of one for net/http, such as httplimit.ClientIP and httplimit.Header. A function of your own
// sees Fiber's context, with the locals of earlier handlers. Fiber's own Ctx.IP is no safe key
// behind a proxy: it may take the first address of X-Forwarded-For, which the client writes.
//
// # When a limiter fails
//
// Requests pass by default. With Options.OnFailure set to FailClosed they get 503.
//
// docs/promises.md names the tests that check these promises.
package fiberlimit
