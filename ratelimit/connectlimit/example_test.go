package connectlimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

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
