package connectlimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit/connectlimit"
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

// protocols are the protocols of Connect, with the option of a client.
var protocols = map[string]connect.ClientOption{
	"connect":  connect.WithProtoJSON(),
	"grpc":     connect.WithGRPC(),
	"grpc-web": connect.WithGRPCWeb(),
}

const (
	unary  = "/test.Service/Unary"
	stream = "/test.Service/Stream"
)

type (
	empty = emptypb.Empty
	rpc   struct {
		unary, stream *connect.Client[empty, empty]
		calls         *atomic.Int64 // that reach the handlers
	}
)

// serve starts an HTTP/2 server with a unary procedure, which calls handle if it is not nil, and a stream, which sends
// a message and lasts until it is cancelled.
func serve(t *testing.T, handle func() error, handler connect.HandlerOption, client ...connect.ClientOption) rpc {
	t.Helper()
	calls := new(atomic.Int64)
	mux := http.NewServeMux()
	mux.Handle(unary, connect.NewUnaryHandlerSimple(unary, func(context.Context, *empty) (*empty, error) {
		calls.Add(1)
		if handle != nil {
			return &empty{}, handle()
		}
		return &empty{}, nil
	}, handler))
	mux.Handle(stream, connect.NewServerStreamHandlerSimple(stream, func(ctx context.Context, _ *empty, s *connect.ServerStream[empty]) error {
		calls.Add(1)
		if err := s.Send(&empty{}); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}, handler))
	s := httptest.NewUnstartedServer(mux)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return rpc{
		unary:  connect.NewClient[empty, empty](s.Client(), s.URL+unary, client...),
		stream: connect.NewClient[empty, empty](s.Client(), s.URL+stream, client...),
		calls:  calls,
	}
}

func (r rpc) call(t *testing.T) (http.Header, error) {
	t.Helper()
	res, err := r.unary.CallUnary(t.Context(), connect.NewRequest(&empty{}))
	if err == nil {
		return res.Header(), nil
	}
	var e *connect.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	return e.Meta(), err
}

// open starts a stream and reads its first message.
func (r rpc) open(t *testing.T) (header http.Header, end func(), err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := r.stream.CallServerStream(ctx, connect.NewRequest(&empty{}))
	if err == nil && !s.Receive() {
		err = s.Err()
	}
	if err != nil {
		cancel()
		return nil, cancel, err
	}
	return s.ResponseHeader(), func() {
		cancel()
		_ = s.Close()
	}, nil
}

func wantFields(t *testing.T, header http.Header, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := header.Get(pairs[i]); got != pairs[i+1] {
			t.Errorf("%s: %q, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

// refused checks the error of a call over the limit called name.
func refused(t *testing.T, err error, name string, least, most time.Duration) {
	t.Helper()
	var e *connect.Error
	if !errors.As(err, &e) {
		t.Errorf("%v, want an error of Connect", err)
		return
	}
	var retry time.Duration
	var by string
	for _, d := range e.Details() {
		v, err := d.Value()
		must(t, err)
		switch d := v.(type) {
		case *errdetails.RetryInfo:
			retry = d.GetRetryDelay().AsDuration()
		case *errdetails.QuotaFailure:
			by = d.GetViolations()[0].GetSubject()
		}
	}
	if e.Code() != connect.CodeResourceExhausted || by != name || retry < least || retry > most {
		t.Errorf("%v, retry %v, by %q; want resource_exhausted, %v to %v, %q", err, retry, by, least, most, name)
	}
	seconds := strconv.FormatInt(int64((retry+time.Second-1)/time.Second), 10)
	millis := strconv.FormatInt(int64((retry+time.Millisecond-1)/time.Millisecond), 10)
	wantFields(t, e.Meta(), "Retry-After", seconds, "Grpc-Retry-Pushback-Ms", millis)
}

// Promise: A refused call ends with CodeResourceExhausted, with RetryInfo and QuotaFailure, Retry-After and
// grpc-retry-pushback-ms; every response has the RateLimit fields; in Connect, gRPC and gRPC-Web.
func TestUnary(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, client *redoubt.Client) {
				limited, err := connectlimit.New(connectlimit.Options{Policies: []connectlimit.Policy{
					{Name: "api", Limiter: limiter(t, client, ratelimit.Limit{Rate: 2, Period: time.Hour, Burst: 4}), Key: connectlimit.Procedure},
					{Name: "all", Limiter: limiter(t, client, ratelimit.PerHour(2))},
				}})
				must(t, err)
				fails := errors.New("no")
				var result error
				r := serve(t, func() error { return result }, connect.WithInterceptors(limited), protocol)
				const policies = `"api";q=4;w=7200, "all";q=2;w=3600`
				header, err := r.call(t)
				must(t, err)
				wantFields(t, header, "Ratelimit-Policy", policies, "Ratelimit", `"api";r=3;t=1800, "all";r=1;t=1800`, "Retry-After", "")
				result = fails // the handler's errors have the fields too
				header, err = r.call(t)
				if connect.CodeOf(err) != connect.CodeUnknown {
					t.Errorf("%v, want the handler's", err)
				}
				wantFields(t, header, "Ratelimit-Policy", policies)
				for range 5 { // what is refused by the second has paid nothing to the first
					header, err = r.call(t)
					refused(t, err, "all", 1790*time.Second, time.Hour)
					wantFields(t, header, "Ratelimit-Policy", `"all";q=2;w=3600`)
				}
				if n := r.calls.Load(); n != 2 {
					t.Errorf("%d calls reached the handler, want 2", n)
				}
			})
		})
	}
}

// Promise: A refused call ends with CodeResourceExhausted, with RetryInfo and QuotaFailure, Retry-After and
// grpc-retry-pushback-ms; every response has the RateLimit fields; in Connect, gRPC and gRPC-Web.
func TestStream(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, client *redoubt.Client) {
				calls, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 1})
				must(t, err)
				limited, err := connectlimit.New(connectlimit.Options{Policies: []connectlimit.Policy{
					{Name: "api", Limiter: limiter(t, client, ratelimit.PerHour(2))},
					{Name: "busy", Concurrency: calls},
				}})
				must(t, err)
				r := serve(t, nil, connect.WithInterceptors(limited), protocol)
				header, end, err := r.open(t)
				must(t, err)
				wantFields(t, header, "Ratelimit-Policy", `"api";q=2;w=3600, "busy";q=1;qu="concurrent-requests"`, "Ratelimit", `"api";r=1;t=1800, "busy";r=0`)
				for range 3 { // which are given back to the first
					_, _, err = r.open(t)
					refused(t, err, "busy", time.Second, time.Second)
				}
				end()
				await.Soon(t, "the server notices the end", func() bool {
					_, end, err = r.open(t)
					return err == nil
				})
				_, _, err = r.open(t)
				refused(t, err, "api", 1700*time.Second, 1800*time.Second)
				end()
			})
		})
	}
}

// TestLostPlaceEndsTheStream: the ctx of its handler ends.
func TestLostPlaceEndsTheStream(t *testing.T) {
	each(t, func(t *testing.T, client *redoubt.Client) {
		calls, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 1, TTL: 300 * time.Millisecond})
		must(t, err)
		limited, err := connectlimit.New(connectlimit.Options{Policies: []connectlimit.Policy{{Name: "busy", Concurrency: calls}}})
		must(t, err)
		r := serve(t, nil, connect.WithInterceptors(limited))
		s, err := r.stream.CallServerStream(t.Context(), connect.NewRequest(&empty{}))
		must(t, err)
		if !s.Receive() {
			t.Fatal(s.Err())
		}
		key, err := client.Key("busy", "calls")
		must(t, err)
		must(t, client.Do(t.Context(), redoubt.Cmd{Name: "DEL", Keys: []string{key}}).Err)
		if s.Receive() || connect.CodeOf(s.Err()) != connect.CodeCanceled {
			t.Errorf("%v, want canceled", s.Err())
		}
		must(t, s.Close())
	})
}

// Promise: Keys come from httplimit, the procedure, or a function of the program.
func TestKeys(t *testing.T) {
	call := func(addr, forwarded string) *connectlimit.Call {
		return &connectlimit.Call{
			Context: t.Context(), Spec: connect.Spec{Procedure: unary}, Peer: connect.Peer{Addr: addr},
			Header: http.Header{"X-Forwarded-For": {"1.1.1.1", forwarded}, "Api-Key": {"secret"}},
		}
	}
	clients, err := httplimit.ClientIP(httplimit.IPOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	must(t, err)
	for _, c := range []struct{ addr, forwarded, want string }{
		{"10.0.0.1:1", "9.9.9.9, 198.51.100.1", "198.51.100.1"},
		{"192.0.2.7:1", "198.51.100.1", "192.0.2.7"},
		{"", "198.51.100.1", ""},
	} {
		if got := connectlimit.FromHTTP(clients)(call(c.addr, c.forwarded)); got != c.want {
			t.Errorf("%v: %q", c, got)
		}
	}
	if got := connectlimit.FromHTTP(httplimit.Header("Api-Key"))(call("", "")); len(got) < 20 {
		t.Errorf("%q, want a hash", got)
	}
	if got := connectlimit.FromHTTP(func(r *http.Request) string { return r.URL.Path })(call("", "")); got != unary {
		t.Errorf("%q", got)
	}

	// The peer of a real call is an address.
	var seen atomic.Value
	limited, err := connectlimit.New(connectlimit.Options{Policies: []connectlimit.Policy{{
		Name: "api", Limiter: failing{}, Key: func(c *connectlimit.Call) string {
			seen.Store(connectlimit.FromHTTP(clients)(c) + connectlimit.Procedure(c))
			return ""
		},
	}}})
	must(t, err)
	_, err = serve(t, nil, connect.WithInterceptors(limited)).call(t)
	must(t, err)
	if got := seen.Load(); got != "127.0.0.1"+unary {
		t.Errorf("%q", got)
	}
}

// A failing limiter can't be asked.
type failing struct{}

func (failing) Allow(context.Context, string) (ratelimit.Decision, error) {
	return ratelimit.Decision{}, io.ErrUnexpectedEOF
}

func (failing) Wait(context.Context, string) error { return io.ErrUnexpectedEOF }

// Promise: When a limiter fails, calls pass, or end with CodeUnavailable with
// FailClosed.
func TestStoreFailure(t *testing.T) {
	for failure, want := range map[connectlimit.FailureMode]connect.Code{connectlimit.FailOpen: 0, connectlimit.FailClosed: connect.CodeUnavailable} {
		var told atomic.Int64
		tell := func(c *connectlimit.Call, err error) {
			if c.Spec.Procedure == unary && errors.Is(err, io.ErrUnexpectedEOF) {
				told.Add(1)
			}
		}
		limited, err := connectlimit.New(connectlimit.Options{
			Policies:  []connectlimit.Policy{{Name: "api", Limiter: failing{}}},
			OnFailure: failure,
			OnError:   func(c *connectlimit.Call, _ string, err error) { tell(c, err) },
		})
		must(t, err)
		paced, err := connectlimit.NewClient(connectlimit.ClientOptions{Limiter: failing{}, Name: "api", OnFailure: failure, OnError: tell})
		must(t, err)
		for side, r := range map[string]rpc{
			"handler": serve(t, nil, connect.WithInterceptors(limited)),
			"client":  serve(t, nil, connect.WithInterceptors(), connect.WithInterceptors(paced)),
		} {
			told.Store(0)
			header, err := r.call(t)
			if err == nil && want != 0 || err != nil && connect.CodeOf(err) != want || told.Load() != 1 || header.Get("Ratelimit") != "" {
				t.Errorf("%s: %v, want %v; told %d times; header %v", side, err, want, told.Load(), header)
			}
		}
	}
}

func TestBadOptions(t *testing.T) {
	if _, err := connectlimit.New(connectlimit.Options{}); err == nil {
		t.Error("no policies are no error")
	}
	if _, err := connectlimit.NewClient(connectlimit.ClientOptions{}); err == nil {
		t.Error("options without a limiter are no error")
	}
}

// Promise: A call of a client waits for its token, and ends with CodeResourceExhausted, unsent, if that comes after
// its deadline.
func TestClientWaits(t *testing.T) {
	each(t, func(t *testing.T, client *redoubt.Client) {
		paced := func(opts connectlimit.ClientOptions) rpc {
			limited, err := connectlimit.NewClient(opts)
			must(t, err)
			// In a handler it does nothing.
			return serve(t, nil, connect.WithInterceptors(limited), connect.WithInterceptors(limited))
		}
		r := paced(connectlimit.ClientOptions{Limiter: limiter(t, client, ratelimit.Limit{Rate: 1, Period: 200 * time.Millisecond, Burst: 1}), Name: "service"})
		began := time.Now()
		for range 3 {
			_, err := r.call(t)
			must(t, err)
		}
		if took := time.Since(began); took < 400*time.Millisecond {
			t.Errorf("three calls took %v, want 400 ms or more", took)
		}

		r = paced(connectlimit.ClientOptions{Limiter: limiter(t, client, ratelimit.PerHour(1)), Name: "slow", Key: connectlimit.Procedure})
		_, err := r.call(t)
		must(t, err)
		_, end, err := r.open(t) // another procedure has another limit
		must(t, err)
		end()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.unary.CallUnary(ctx, connect.NewRequest(&empty{})); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("a call that would wait for an hour: %v, want resource_exhausted", err)
		}
		if _, err := r.stream.CallServerStream(ctx, connect.NewRequest(&empty{})); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("a second stream: %v, want resource_exhausted", err)
		}
		both := r.stream.CallBidiStream(ctx)
		if _, err := both.Receive(); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("a stream of both directions: %v, want resource_exhausted", err)
		}
		if n := r.calls.Load(); n != 2 {
			t.Errorf("%d calls reached the server, want 2", n)
		}
		ended, stop := context.WithCancel(t.Context())
		stop()
		if _, err := r.unary.CallUnary(ended, connect.NewRequest(&empty{})); connect.CodeOf(err) != connect.CodeCanceled {
			t.Errorf("a call whose ctx has ended: %v, want canceled", err)
		}
	})
}

// TestHandlersInterceptorInAClient: an Interceptor in a client does nothing, so both sides may share a list.
func TestHandlersInterceptorInAClient(t *testing.T) {
	limited, err := connectlimit.New(connectlimit.Options{Policies: []connectlimit.Policy{{Name: "api", Limiter: failing{}}}, OnFailure: connectlimit.FailClosed})
	must(t, err)
	r := serve(t, nil, connect.WithInterceptors(), connect.WithInterceptors(limited))
	_, err = r.call(t)
	must(t, err)
	_, end, err := r.open(t)
	must(t, err)
	end()
}
