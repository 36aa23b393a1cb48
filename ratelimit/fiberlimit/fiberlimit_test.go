package fiberlimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit/fiberlimit"
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

// serve starts a server whose handler answers 204 unless handler does, behind a Middleware.
func serve(t *testing.T, opts fiberlimit.Options, handler fiber.Handler) (get func(header ...string) *http.Response) {
	t.Helper()
	m, err := fiberlimit.New(opts)
	must(t, err)
	if handler == nil {
		handler = func(c fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) }
	}
	app := fiber.New()
	app.Use(func(c fiber.Ctx) error {
		err := c.Next()
		if c.Context().Err() != nil {
			t.Error("behind the middleware the request has an ended context")
		}
		return err
	}, m.Handle)
	app.Get("/", handler)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		must(t, app.Shutdown())
		must(t, <-served)
	})
	return func(header ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/?a=b", http.NoBody)
		must(t, err)
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		res, err := client.Do(r)
		must(t, err)
		body, err := io.ReadAll(res.Body)
		must(t, err)
		must(t, res.Body.Close())
		res.Body = io.NopCloser(strings.NewReader(string(body)))
		return res
	}
}

func wantStatus(t *testing.T, res *http.Response, status int, fields ...string) {
	t.Helper()
	if res.StatusCode != status {
		t.Errorf("status %d, want %d", res.StatusCode, status)
	}
	for i := 0; i < len(fields); i += 2 {
		if got := strings.Join(res.Header.Values(fields[i]), " | "); got != fields[i+1] {
			t.Errorf("%s: %q, want %q", fields[i], got, fields[i+1])
		}
	}
}

// Promise: Clients see what httplimit shows: the RateLimit fields in every response, and 429 with problem details and
// Retry-After.
func TestAnswers(t *testing.T) {
	each(t, func(t *testing.T, client *redoubt.Client) {
		opts := fiberlimit.Options{Policies: []fiberlimit.Policy{
			{Name: "api", Limiter: limiter(t, client, ratelimit.Limit{Rate: 2, Period: time.Hour, Burst: 4}), Key: fiberlimit.FromHTTP(httplimit.Header("Api-Key"))},
			{Name: "all", Limiter: limiter(t, client, ratelimit.PerHour(2))},
		}}
		var result error
		get := serve(t, opts, func(c fiber.Ctx) error {
			if result != nil {
				return result
			}
			return c.SendStatus(http.StatusNoContent)
		})
		const policies = `"api";q=4;w=7200, "all";q=2;w=3600`
		wantStatus(t, get(), 204, "RateLimit-Policy", policies, "RateLimit", `"api";r=3;t=1800, "all";r=1;t=1800`, "Retry-After", "")
		result = fiber.ErrTeapot // the handler's errors have the fields too
		wantStatus(t, get(), http.StatusTeapot, "RateLimit-Policy", policies)
		for range 5 { // what is refused by the second has paid nothing to the first
			res := get()
			wantStatus(t, res, 429, "RateLimit-Policy", `"all";q=2;w=3600`, "RateLimit", `"all";r=0;t=1800`, "Retry-After", "1800",
				"Content-Type", "application/problem+json", "Cache-Control", "no-store")
			var body map[string]any
			must(t, json.NewDecoder(res.Body).Decode(&body))
			if body["status"] != 429.0 || body["violated-policies"].([]any)[0] != "all" {
				t.Errorf("%v", body)
			}
		}

		opts.Refused = func(c fiber.Ctx) error { return c.SendStatus(http.StatusGone) }
		opts.Skip = func(c fiber.Ctx) bool { return c.Get("Health") != "" }
		own := serve(t, opts, nil)
		wantStatus(t, own(), http.StatusGone, "Retry-After", "1800", "RateLimit", `"all";r=0;t=1800`)
		wantStatus(t, own("Health", "yes"), 204, "RateLimit", "", "Retry-After", "")
	})
}

// TestConcurrentRequests: a request has its place until its handler returns.
//
// Promise: A request holds a place of a concurrency limit until its handler
// returns.
func TestConcurrentRequests(t *testing.T) {
	each(t, func(t *testing.T, client *redoubt.Client) {
		calls, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 1, TTL: 300 * time.Millisecond})
		must(t, err)
		entered, leave := make(chan struct{}), make(chan struct{})
		get := serve(t, fiberlimit.Options{Policies: []fiberlimit.Policy{{Name: "busy", Concurrency: calls}}}, func(c fiber.Ctx) error {
			entered <- struct{}{}
			select {
			case <-leave:
				return c.SendStatus(http.StatusNoContent)
			case <-c.Context().Done():
				return c.SendStatus(http.StatusConflict)
			}
		})
		begin := func() chan int {
			first := make(chan int, 1)
			go func() { first <- get().StatusCode }()
			<-entered
			return first
		}
		for range 2 {
			first := begin()
			wantStatus(t, get(), 429, "RateLimit-Policy", `"busy";q=1;qu="concurrent-requests"`, "RateLimit", `"busy";r=0`, "Retry-After", "1")
			leave <- struct{}{}
			if got := <-first; got != 204 {
				t.Errorf("the first: %d", got)
			}
		}

		first := begin() // and lose the place
		key, err := client.Key("busy", "calls")
		must(t, err)
		must(t, client.Do(t.Context(), redoubt.Cmd{Name: "DEL", Keys: []string{key}}).Err)
		if got := <-first; got != http.StatusConflict {
			t.Errorf("the context of a request that lost its place does not end: %d", got)
		}
	})
}

// Promise: Keys come from httplimit, also where a field stands in a request several times, or a function of the
// program.
func TestKeys(t *testing.T) {
	clients, err := httplimit.ClientIP(httplimit.IPOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}})
	must(t, err)
	seen := make(chan string, 1)
	get := serve(t, fiberlimit.Options{Policies: []fiberlimit.Policy{{
		Name: "api", Limiter: failing{}, Key: func(c fiber.Ctx) string {
			seen <- fiberlimit.FromHTTP(clients)(c)
			return fiberlimit.FromHTTP(func(r *http.Request) string {
				if r.URL.Path != "/" || r.URL.Query().Get("a") != "b" || r.Method != "GET" || !strings.HasPrefix(r.Host, "127.0.0.1:") {
					t.Errorf("%+v", r)
				}
				return ""
			})(c)
		},
	}}}, nil)
	for want, header := range map[string][]string{
		"198.51.100.1": {"X-Forwarded-For", "1.1.1.1, 198.51.100.1", "X-Forwarded-For", "10.0.0.2"},
		"127.0.0.1":    {},
	} {
		wantStatus(t, get(header...), 204)
		if got := <-seen; got != want {
			t.Errorf("%v: %q, want %q", header, got, want)
		}
	}
}

// A failing limiter can't be asked.
type failing struct{}

func (failing) Allow(context.Context, string) (ratelimit.Decision, error) {
	return ratelimit.Decision{}, io.ErrUnexpectedEOF
}

// Promise: When a limiter fails, requests pass, or get 503 with FailClosed.
func TestStoreFailure(t *testing.T) {
	for failure, want := range map[fiberlimit.FailureMode]int{fiberlimit.FailOpen: 204, fiberlimit.FailClosed: 503} {
		var told atomic.Int64
		get := serve(t, fiberlimit.Options{
			Policies:  []fiberlimit.Policy{{Name: "api", Limiter: failing{}}},
			OnFailure: failure,
			OnError: func(c fiber.Ctx, policy string, err error) {
				if c.Path() == "/" && policy == "api" && errors.Is(err, io.ErrUnexpectedEOF) {
					told.Add(1)
				}
			},
			Refused: func(fiber.Ctx) error { return errors.New("a failure is no refusal") },
		}, nil)
		res := get()
		wantStatus(t, res, want, "RateLimit", "")
		if told.Load() != 1 {
			t.Errorf("OnError: %d times", told.Load())
		}
		if want == 503 {
			wantStatus(t, res, 503, "Retry-After", "1", "Content-Type", "application/problem+json")
		}
	}
	if _, err := fiberlimit.New(fiberlimit.Options{}); err == nil {
		t.Error("no policies are no error")
	}
}
