package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/await"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/ratelimit"
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

// serve starts a server whose handler answers 204, behind a Middleware.
func serve(t *testing.T, opts httplimit.Options, handler http.HandlerFunc) (get func(header ...string) *http.Response) {
	t.Helper()
	m, err := httplimit.New(opts)
	must(t, err)
	if handler == nil {
		handler = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	}
	s := httptest.NewServer(m.Wrap(handler))
	t.Cleanup(s.Close)
	return func(header ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
		must(t, err)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(r)
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

// TestFields: what each response tells, of one policy and of several.
//
// Promise: Every response has the RateLimit fields of the draft.
func TestFields(t *testing.T) {
	each(t, func(t *testing.T, client *redoubt.Client) {
		clients := clientIP(t, httplimit.IPOptions{})
		get := serve(t, httplimit.Options{Policies: []httplimit.Policy{
			{Name: "api", Limiter: limiter(t, client, ratelimit.Limit{Rate: 2, Period: time.Hour, Burst: 4}), Key: clients},
			{Name: `all "of" us`, Limiter: limiter(t, client, ratelimit.PerHour(3))},
		}}, nil)
		const policies = `"api";q=4;w=7200, "all \"of\" us";q=3;w=3600`
		wantStatus(t, get(), 204, "RateLimit-Policy", policies, "RateLimit", `"api";r=3;t=1800, "all \"of\" us";r=2;t=1200`, "Retry-After", "")
		for range 2 {
			wantStatus(t, get(), 204, "RateLimit-Policy", policies)
		}
		// A request that the second refuses has paid nothing to the first, and is
		// told of the second only: Retry-After must not be before any t.
		for range 3 {
			wantStatus(t, get(), 429, "RateLimit-Policy", `"all \"of\" us";q=3;w=3600`, "RateLimit", `"all \"of\" us";r=0;t=1200`, "Retry-After", "1200")
		}
		must(t, limiter(t, client, ratelimit.PerHour(3)).Reset(t.Context(), `all "of" us`))
		wantStatus(t, get(), 204, "RateLimit", `"api";r=0;t=7200, "all \"of\" us";r=2;t=1200`)
		wantStatus(t, get(), 429, "RateLimit", `"api";r=0;t=1800`, "Retry-After", "1800")
	})
}

// Promise: A client that waits for Retry-After is admitted, if nobody else takes
// its tokens, and not a second earlier.
func TestRetryAfterComesTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(t.Context(), engine.Options{})
		must(t, err)
		client, err := redoubt.New(e, redoubt.Options{})
		must(t, err)
		for _, l := range []ratelimit.Limit{
			{Rate: 3, Period: 10 * time.Second, Burst: 2}, {Rate: 7, Period: time.Minute, Burst: 1}, ratelimit.PerMinute(60), {Rate: 1000, Period: time.Second, Burst: 1},
		} {
			name := strconv.Itoa(l.Rate)
			m, err := httplimit.New(httplimit.Options{Policies: []httplimit.Policy{{Name: name, Limiter: limiter(t, client, l)}}})
			must(t, err)
			h := m.Wrap(http.NotFoundHandler())
			get := func() *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
				return w
			}
			var w *httptest.ResponseRecorder
			for w = get(); w.Code == 404; w = get() {
			}
			after, err := strconv.Atoi(w.Header().Get("Retry-After"))
			must(t, err)
			if want := `"` + name + `";r=0;t=` + strconv.Itoa(after); after < 1 || w.Header().Get("RateLimit") != want {
				t.Errorf("%v: Retry-After %d, RateLimit %s, want %s", l, after, w.Header().Get("RateLimit"), want)
			}
			await.Advance(time.Duration(after-1) * time.Second)
			if w := get(); after > 1 && w.Code != 429 {
				t.Errorf("%v: %d a second before Retry-After", l, w.Code)
			}
			await.Advance(time.Second)
			if w := get(); w.Code != 404 {
				t.Errorf("%v: %d at Retry-After", l, w.Code)
			}
		}
		must(t, client.Close())
		must(t, e.Close())
	})
}

// Promise: A refused request gets 429 with problem details of RFC 9457.
func TestProblem(t *testing.T) {
	each(t, func(t *testing.T, client *redoubt.Client) {
		p := httplimit.Policy{Name: "api", Limiter: limiter(t, client, ratelimit.PerHour(1)), Key: httplimit.Header("Api-Key")}
		get := serve(t, httplimit.Options{Policies: []httplimit.Policy{p}}, nil)
		wantStatus(t, get("Api-Key", "a"), 204)
		res := get("Api-Key", "a")
		wantStatus(t, res, 429, "Content-Type", "application/problem+json", "Retry-After", "3600")
		var body map[string]any
		must(t, json.NewDecoder(res.Body).Decode(&body))
		if body["type"] != "https://iana.org/assignments/http-problem-types#quota-exceeded" || body["status"] != 429.0 ||
			body["title"] == "" || len(body["violated-policies"].([]any)) != 1 || body["violated-policies"].([]any)[0] != "api" {
			t.Errorf("%v", body)
		}
		wantStatus(t, get("Api-Key", "b"), 204)
		wantStatus(t, get(), 204)
		wantStatus(t, get(), 429) // all without a key have one limit

		own := serve(t, httplimit.Options{
			Policies: []httplimit.Policy{p},
			Refused:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
			Skip:     func(r *http.Request) bool { return r.Header.Get("Health") != "" },
		}, nil)
		wantStatus(t, own(), http.StatusTeapot, "Retry-After", "3600", "RateLimit", `"api";r=0;t=3600`)
		wantStatus(t, own("Health", "yes"), 204, "RateLimit", "", "Retry-After", "")
	})
}

// TestEveryAlgorithm: a Window and a Quota are limiters too.
func TestEveryAlgorithm(t *testing.T) {
	each(t, func(t *testing.T, client *redoubt.Client) {
		window, err := ratelimit.NewWindow(client, ratelimit.WindowOptions{Limit: ratelimit.PerMinute(7)})
		must(t, err)
		quota, err := ratelimit.NewQuota(client, ratelimit.QuotaOptions{Allowance: ratelimit.Allowance{Calls: 50, Per: ratelimit.Day}})
		must(t, err)
		get := serve(t, httplimit.Options{Policies: []httplimit.Policy{{Name: "w", Limiter: window}, {Name: "q", Limiter: quota}}}, nil)
		res := get()
		wantStatus(t, res, 204, "RateLimit-Policy", `"w";q=7;w=60, "q";q=50;w=86400`)
		if got := res.Header.Get("RateLimit"); !strings.HasPrefix(got, `"w";r=6;t=60, "q";r=49;t=`) {
			t.Errorf("RateLimit: %s", got)
		}
	})
}

// TestConcurrentRequests: a request has its place until its handler returns, or
// panics.
//
// Promise: A request holds a place of a concurrency limit until its handler
// returns.
func TestConcurrentRequests(t *testing.T) {
	each(t, func(t *testing.T, client *redoubt.Client) {
		calls, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 1})
		must(t, err)
		entered, leave := make(chan struct{}), make(chan string)
		get := serve(t, httplimit.Options{Policies: []httplimit.Policy{{Name: "busy", Concurrency: calls}}}, func(w http.ResponseWriter, _ *http.Request) {
			entered <- struct{}{}
			<-leave
			w.WriteHeader(http.StatusNoContent)
		})
		for _, way := range []string{"return", "panic", "return"} {
			first := make(chan int)
			go func() {
				defer close(first)
				if way != "panic" {
					first <- get().StatusCode
					return
				}
				m, _ := httplimit.New(httplimit.Options{Policies: []httplimit.Policy{{Name: "busy", Concurrency: calls}}})
				defer func() { _ = recover() }()
				m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					entered <- struct{}{}
					panic(<-leave)
				})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
			}()
			<-entered
			wantStatus(t, get(), 429, "RateLimit-Policy", `"busy";q=1;qu="concurrent-requests"`, "RateLimit", `"busy";r=0`, "Retry-After", "1")
			leave <- way
			if got := <-first; way == "return" && got != 204 {
				t.Errorf("the first: %d", got)
			}
		}
	})
}

// A failing limiter gives what it is told to.
type failing struct{ err error }

func (f failing) Allow(ctx context.Context, _ string) (ratelimit.Decision, error) {
	if f.err == nil {
		<-ctx.Done()
		return ratelimit.Decision{}, ctx.Err()
	}
	return ratelimit.Decision{}, f.err
}

// Promise: When a limiter fails, requests pass, or get 503 with FailClosed.
func TestStoreFailure(t *testing.T) {
	boom := errors.New("boom")
	for _, l := range []failing{{boom}, {nil}} { // an error, and no answer at all
		for _, c := range []struct {
			failure httplimit.FailureMode
			status  int
		}{{httplimit.FailOpen, 204}, {httplimit.FailClosed, 503}} {
			var told atomic.Int64
			get := serve(t, httplimit.Options{
				Policies:  []httplimit.Policy{{Name: "api", Limiter: l}},
				OnFailure: c.failure,
				Timeout:   10 * time.Millisecond,
				OnError: func(_ *http.Request, policy string, err error) {
					if policy == "api" && (l.err == nil && errors.Is(err, context.DeadlineExceeded) || l.err != nil && errors.Is(err, l.err)) {
						told.Add(1)
					}
				},
			}, nil)
			res := get()
			wantStatus(t, res, c.status, "RateLimit", "")
			if told.Load() != 1 {
				t.Errorf("OnError: %d times", told.Load())
			}
			if c.status == 503 {
				wantStatus(t, res, 503, "Retry-After", "1", "Content-Type", "application/problem+json")
			}
		}
	}
	if _, err := httplimit.New(httplimit.Options{}); err == nil {
		t.Error("no policies are no error")
	}
}
