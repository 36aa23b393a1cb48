package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit/grpclimit"
	"github.com/redoubt-go/redoubt/ratelimit/httplimit"
)

var must = expect.Must

// each runs a test with a client on every back end.
func each(t *testing.T, run func(t *testing.T, client *redoubt.Client)) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		run(t, clienttest.New(t, clienttest.Wrap(t, clienttest.Dial(t, b.Addr)), b.Prefix))
	})
}

func limiter(t *testing.T, client *redoubt.Client, l ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	limits, err := ratelimit.New(client, ratelimit.Options{Limit: l})
	must(t, err)
	return limits
}

// serve starts a server of gRPC's health service behind an Interceptor: Check is
// a unary call, Watch a stream that lasts until it is cancelled.
func serve(t *testing.T, opts grpclimit.Options) healthpb.HealthClient {
	t.Helper()
	limited, err := grpclimit.New(opts)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := grpc.NewServer(grpc.UnaryInterceptor(limited.Unary), grpc.StreamInterceptor(limited.Stream))
	healthpb.RegisterHealthServer(s, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		must(t, <-served)
	})
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return healthpb.NewHealthClient(conn)
}

// refused checks the error of a call over the limit called name.
func refused(t *testing.T, err error, name string, least, most time.Duration) {
	t.Helper()
	s := status.Convert(err)
	var retry time.Duration
	var by string
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d.GetRetryDelay().AsDuration()
		case *errdetails.QuotaFailure:
			by = d.GetViolations()[0].GetSubject()
		}
	}
	if s.Code() != codes.ResourceExhausted || by != name || retry < least || retry > most {
		t.Errorf("%v, retry %v, by %q; want ResourceExhausted, %v to %v, %q", err, retry, by, least, most, name)
	}
}

func wantMD(t *testing.T, md metadata.MD, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		var got string
		if v := md.Get(pairs[i]); len(v) > 0 {
			got = v[0]
		}
		if got != pairs[i+1] {
			t.Errorf("%s: %q, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

// Promise: A refused call ends with ResourceExhausted, with RetryInfo,
// QuotaFailure and the trailer grpc-retry-pushback-ms; every call has the
// RateLimit fields.
func TestUnary(t *testing.T) {
	each(t, func(t *testing.T, client *redoubt.Client) {
		c := serve(t, grpclimit.Options{Policies: []grpclimit.Policy{
			{Name: "api", Limiter: limiter(t, client, ratelimit.Limit{Rate: 2, Period: time.Hour, Burst: 4}), Key: grpclimit.PeerIP},
			{Name: "all", Limiter: limiter(t, client, ratelimit.PerHour(1))},
		}})
		var head, tail metadata.MD
		check := func() error {
			_, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.Header(&head), grpc.Trailer(&tail))
			return err
		}
		must(t, check())
		wantMD(t, head, "ratelimit-policy", `"api";q=4;w=7200, "all";q=1;w=3600`, "ratelimit", `"api";r=3;t=1800, "all";r=0;t=3600`)
		wantMD(t, tail, "ratelimit", "", "grpc-retry-pushback-ms", "")
		for range 5 { // what is refused by the second has paid nothing to the first
			refused(t, check(), "all", 3590*time.Second, time.Hour)
			wantMD(t, head, "ratelimit-policy", `"all";q=1;w=3600`, "ratelimit", `"all";r=0;t=3600`)
			if v := tail.Get("grpc-retry-pushback-ms"); len(v) != 1 || len(v[0]) != len("3599000") {
				t.Errorf("pushback: %q", v)
			}
		}
	})
}

// Promise: A refused call ends with ResourceExhausted, with RetryInfo,
// QuotaFailure and the trailer grpc-retry-pushback-ms; every call has the
// RateLimit fields.
func TestStream(t *testing.T) {
	each(t, func(t *testing.T, client *redoubt.Client) {
		calls, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 1})
		must(t, err)
		c := serve(t, grpclimit.Options{Policies: []grpclimit.Policy{
			{Name: "api", Limiter: limiter(t, client, ratelimit.PerHour(2)), Key: grpclimit.Method},
			{Name: "busy", Concurrency: calls},
		}})
		var tail metadata.MD
		watch := func() (head metadata.MD, end func(), err error) {
			ctx, cancel := context.WithCancel(t.Context())
			s, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
			must(t, err)
			if _, err = s.Recv(); err != nil {
				cancel()
				tail = s.Trailer()
			}
			head, _ = s.Header()
			return head, cancel, err
		}
		head, end, err := watch()
		must(t, err)
		wantMD(t, head, "ratelimit-policy", `"api";q=2;w=3600, "busy";q=1;qu="concurrent-requests"`, "ratelimit", `"api";r=1;t=1800, "busy";r=0`)
		for range 3 { // which are given back to the first
			_, _, err = watch()
			refused(t, err, "busy", time.Second, time.Second)
			wantMD(t, tail, "grpc-retry-pushback-ms", "1000")
		}
		end()
		untilFree(t, func() error { // the server has yet to notice
			_, end, err = watch()
			return err
		})
		_, _, err = watch()
		refused(t, err, "api", 1700*time.Second, 1800*time.Second)
		end()
		untilFree(t, func() error { // another method has another limit
			_, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{})
			return err
		})
	})
}

// TestLostPlaceEndsTheStream: the ctx of its handler ends.
func TestLostPlaceEndsTheStream(t *testing.T) {
	each(t, func(t *testing.T, client *redoubt.Client) {
		calls, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 1, TTL: 300 * time.Millisecond})
		must(t, err)
		c := serve(t, grpclimit.Options{Policies: []grpclimit.Policy{{Name: "busy", Concurrency: calls}}})
		s, err := c.Watch(t.Context(), &healthpb.HealthCheckRequest{})
		must(t, err)
		_, err = s.Recv()
		must(t, err)
		key, err := client.Key("busy", "calls")
		must(t, err)
		must(t, client.Do(t.Context(), redoubt.Cmd{Name: "DEL", Keys: []string{key}}).Err)
		if _, err = s.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("%v, want Canceled", err)
		}
	})
}

// untilFree repeats a call until it is not refused for want of a place.
func untilFree(t *testing.T, call func() error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	err := call()
	for status.Code(err) == codes.ResourceExhausted && time.Now().Before(deadline) {
		refused(t, err, "busy", time.Second, time.Second)
		err = call()
	}
	must(t, err)
}

// Promise: Keys are the peer, the client behind trusted proxies, metadata, the
// method, or a function of the program.
func TestKeys(t *testing.T) {
	call := func(addr string, pairs ...string) *grpclimit.Call {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(pairs...))
		if addr != "" {
			ctx = peer.NewContext(ctx, &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))})
		}
		return &grpclimit.Call{Context: ctx, Method: "/a.B/C"}
	}
	for addr, want := range map[string]string{"192.0.2.7:1": "192.0.2.7", "[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "": ""} {
		if got := grpclimit.PeerIP(call(addr)); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
	clients, err := grpclimit.ClientIP(httplimit.IPOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	must(t, err)
	for _, c := range []struct {
		call *grpclimit.Call
		want string
	}{
		{call("10.0.0.1:1", "x-forwarded-for", "1.1.1.1", "x-forwarded-for", "9.9.9.9, 198.51.100.1"), "198.51.100.1"},
		{call("10.0.0.1:1"), "10.0.0.1"},
		{call("192.0.2.7:1", "x-forwarded-for", "198.51.100.1"), "192.0.2.7"},
		{call("", "x-forwarded-for", "198.51.100.1"), ""},
	} {
		if got := clients(c.call); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if _, err := grpclimit.ClientIP(httplimit.IPOptions{IPv6Bits: -1}); err == nil {
		t.Error("IPv6Bits of -1 are no error")
	}
	key := grpclimit.Metadata("Api-Key")
	if a, b := key(call("", "api-key", "a")), key(call("", "api-key", "b")); a == b || a == "" || key(call("")) != "" {
		t.Errorf("%q, %q, %q", a, b, key(call("")))
	}
	if got := grpclimit.Method(call("")); got != "/a.B/C" {
		t.Errorf("%q", got)
	}
}

// A failing limiter can't be asked.
type failing struct{}

func (failing) Allow(context.Context, string) (ratelimit.Decision, error) {
	return ratelimit.Decision{}, io.ErrUnexpectedEOF
}

// Promise: When a limiter fails, calls pass, or end with Unavailable with
// FailClosed.
func TestStoreFailure(t *testing.T) {
	for failure, want := range map[grpclimit.FailureMode]codes.Code{grpclimit.FailOpen: codes.OK, grpclimit.FailClosed: codes.Unavailable} {
		var told atomic.Int64
		c := serve(t, grpclimit.Options{
			Policies:  []grpclimit.Policy{{Name: "api", Limiter: failing{}}},
			OnFailure: failure,
			OnError: func(c *grpclimit.Call, policy string, err error) {
				if c.Method == "/grpc.health.v1.Health/Check" && policy == "api" && errors.Is(err, io.ErrUnexpectedEOF) {
					told.Add(1)
				}
			},
		})
		var head metadata.MD
		_, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.Header(&head))
		if status.Code(err) != want || told.Load() != 1 || len(head.Get("ratelimit")) > 0 {
			t.Errorf("%v, want %v; told %d times; header %v", err, want, told.Load(), head)
		}
	}
	if _, err := grpclimit.New(grpclimit.Options{}); err == nil {
		t.Error("no policies are no error")
	}
}
