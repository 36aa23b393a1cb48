package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit/grpclimit"
)

// dial starts a server of gRPC's health service, and returns a client behind a ClientInterceptor. calls counts what
// reaches the server.
func dial(t *testing.T, opts grpclimit.ClientOptions) (c healthpb.HealthClient, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := grpc.NewServer(grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			calls.Add(1)
			return handler(ctx, req)
		}), grpc.StreamInterceptor(
		func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			calls.Add(1)
			return handler(srv, stream)
		}))
	healthpb.RegisterHealthServer(s, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		must(t, <-served)
	})
	limited, err := grpclimit.NewClient(opts)
	must(t, err)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(limited.Unary), grpc.WithStreamInterceptor(limited.Stream))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return healthpb.NewHealthClient(conn), calls
}

// Promise: A call of a client waits for its token, and ends with ResourceExhausted, unsent, if that comes after
// its deadline.
func TestClientWaits(t *testing.T) {
	each(t, func(t *testing.T, client *redoubt.Client) {
		limits := limiter(t, client, ratelimit.Limit{Rate: 1, Period: 200 * time.Millisecond, Burst: 1})
		c, _ := dial(t, grpclimit.ClientOptions{Limiter: limits, Name: "health"})
		began := time.Now()
		for range 3 {
			_, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{})
			must(t, err)
		}
		if took := time.Since(began); took < 400*time.Millisecond {
			t.Errorf("three calls took %v, want 400 ms or more", took)
		}

		slow := limiter(t, client, ratelimit.PerHour(1))
		c, calls := dial(t, grpclimit.ClientOptions{Limiter: slow, Name: "slow", Key: grpclimit.Method})
		_, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a call that would wait for an hour: %v, want ResourceExhausted", err)
		}
		stream, err := c.Watch(ctx, &healthpb.HealthCheckRequest{}) // another method has another limit
		must(t, err)
		_, err = stream.Recv()
		must(t, err)
		if _, err := c.Watch(ctx, &healthpb.HealthCheckRequest{}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a second stream: %v, want ResourceExhausted", err)
		}
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls reached the server, want 2", n)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := c.Check(ended, &healthpb.HealthCheckRequest{}); status.Code(err) != codes.Canceled {
			t.Errorf("a call whose ctx has ended: %v, want Canceled", err)
		}
	})
}

func (failing) Wait(context.Context, string) error { return io.ErrUnexpectedEOF }

// Promise: When a limiter fails, calls pass, or end with Unavailable with
// FailClosed.
func TestClientStoreFailure(t *testing.T) {
	for failure, want := range map[grpclimit.FailureMode]codes.Code{grpclimit.FailOpen: codes.OK, grpclimit.FailClosed: codes.Unavailable} {
		var told atomic.Int64
		c, _ := dial(t, grpclimit.ClientOptions{
			Limiter: failing{}, Name: "health", OnFailure: failure,
			OnError: func(c *grpclimit.Call, err error) {
				if c.Method == "/grpc.health.v1.Health/Check" && errors.Is(err, io.ErrUnexpectedEOF) {
					told.Add(1)
				}
			},
		})
		if _, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{}); status.Code(err) != want || told.Load() != 1 {
			t.Errorf("%v, want %v; told %d times", err, want, told.Load())
		}
	}
	if _, err := grpclimit.NewClient(grpclimit.ClientOptions{OnFailure: 7}); err == nil {
		t.Error("options without a limiter are no error")
	}
}
