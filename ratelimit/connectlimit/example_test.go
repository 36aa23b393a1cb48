package connectlimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit/connectlimit"
	"github.com/redoubt-go/redoubt/ratelimit/httplimit"
)

// Each client may make two calls an hour.
func Example() {
	store, err := engine.Open(context.Background(), engine.Options{}) // or goredis.Open(ctx, "redis://…")
	if err != nil {
		panic(err)
	}
	defer func() { _ = store.Close() }()
	client, err := redoubt.New(store, redoubt.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()
	limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(2)})
	if err != nil {
		panic(err)
	}
	clients, err := httplimit.ClientIP(httplimit.IPOptions{}) // name your proxies in Trusted
	if err != nil {
		panic(err)
	}
	limited, err := connectlimit.New(connectlimit.Options{Policies: []connectlimit.Policy{
		{Name: "api", Limiter: limits, Key: connectlimit.FromHTTP(clients)},
	}})
	if err != nil {
		panic(err)
	}

	// A generated service takes the same option: pingv1connect.NewPingServiceHandler(ping, connect.WithInterceptors(limited)).
	const procedure = "/ping.v1.PingService/Ping"
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandlerSimple(procedure,
		func(context.Context, *emptypb.Empty) (*emptypb.Empty, error) { return &emptypb.Empty{}, nil },
		connect.WithInterceptors(limited)))
	server := httptest.NewServer(mux)
	defer server.Close()

	ping := connect.NewClient[emptypb.Empty, emptypb.Empty](server.Client(), server.URL+procedure)
	for range 3 {
		_, err := ping.CallUnary(context.Background(), connect.NewRequest(&emptypb.Empty{}))
		if refused, ok := errors.AsType[*connect.Error](err); ok {
			fmt.Println(refused, "- retry after", refused.Meta().Get("Retry-After"), "s")
		} else {
			fmt.Println("answered", err)
		}
	}
	// Output:
	// answered <nil>
	// answered <nil>
	// resource_exhausted: the limit "api" is exceeded - retry after 1800 s
}

// All clients of a service, in all processes, make two calls an hour together. A call that would wait longer than
// its deadline is not sent.
func ExampleNewClient() {
	store, err := engine.Open(context.Background(), engine.Options{}) // or goredis.Open(ctx, "redis://…")
	if err != nil {
		panic(err)
	}
	defer func() { _ = store.Close() }()
	client, err := redoubt.New(store, redoubt.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()
	limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(2)})
	if err != nil {
		panic(err)
	}
	limited, err := connectlimit.NewClient(connectlimit.ClientOptions{Name: "ping", Limiter: limits, Key: connectlimit.Procedure})
	if err != nil {
		panic(err)
	}

	const procedure = "/ping.v1.PingService/Ping"
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandlerSimple(procedure,
		func(context.Context, *emptypb.Empty) (*emptypb.Empty, error) { return &emptypb.Empty{}, nil }))
	server := httptest.NewServer(mux)
	defer server.Close()

	// A generated client takes the same option: pingv1connect.NewPingServiceClient(http.DefaultClient, url, connect.WithInterceptors(limited)).
	ping := connect.NewClient[emptypb.Empty, emptypb.Empty](server.Client(), server.URL+procedure, connect.WithInterceptors(limited))
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, err := ping.CallUnary(ctx, connect.NewRequest(&emptypb.Empty{}))
		cancel()
		if err == nil {
			fmt.Println("answered")
		} else {
			fmt.Println(connect.CodeOf(err))
		}
	}
	// Output:
	// answered
	// answered
	// resource_exhausted
}
