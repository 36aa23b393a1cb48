package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit/httplimit"
)

// Each client may make 100 requests a second and 200 at once, behind proxies in
// 10.0.0.0/8 that add to X-Forwarded-For, and all of them together 2 an hour of
// the expensive kind.
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
	each, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.Limit{Rate: 100, Period: time.Second, Burst: 200}})
	if err != nil {
		panic(err)
	}
	expensive, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(2)})
	if err != nil {
		panic(err)
	}

	clients, err := httplimit.ClientIP(httplimit.IPOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		panic(err)
	}
	limited, err := httplimit.New(httplimit.Options{Policies: []httplimit.Policy{
		{Name: "api", Limiter: each, Key: clients},
		{Name: "export", Limiter: expensive, Skip: func(r *http.Request) bool { return r.URL.Path != "/export" }},
	}})
	if err != nil {
		panic(err)
	}
	handler := limited.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))

	for _, path := range []string{"/", "/export", "/export", "/export"} {
		r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		r.RemoteAddr = "10.0.0.1:80"
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 204 "api";q=200;w=2
	// 204 "api";q=200;w=2, "export";q=2;w=3600
	// 204 "api";q=200;w=2, "export";q=2;w=3600
	// 429 "export";q=2;w=3600
}
