package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit/grpclimit"
)

// Each peer may make two calls an hour.
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
	limited, err := grpclimit.New(grpclimit.Options{Policies: []grpclimit.Policy{
		{Name: "api", Limiter: limits, Key: grpclimit.PeerIP},
	}})
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(limited.Unary), grpc.StreamInterceptor(limited.Stream))
	healthpb.RegisterHealthServer(server, health.NewServer())
	defer server.Stop()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(listener) }()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	for range 3 {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		s := status.Convert(err)
		fmt.Println(s.Code())
		for _, d := range s.Details() {
			if retry, ok := d.(*errdetails.RetryInfo); ok {
				fmt.Println("retry after", retry.GetRetryDelay().AsDuration().Round(time.Minute))
			}
		}
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
	// retry after 30m0s
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
	limited, err := grpclimit.NewClient(grpclimit.ClientOptions{Name: "health", Limiter: limits, Key: grpclimit.Method})
	if err != nil {
		panic(err)
	}

	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	defer server.Stop()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(limited.Unary), grpc.WithStreamInterceptor(limited.Stream))
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		cancel()
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}
