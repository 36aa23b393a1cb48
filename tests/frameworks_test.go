//go:build !quick

package tests

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v5"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/internal/test/snippets"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit/httplimit"
)

// oneAtATime limits each client to two requests an hour, and all of them to one at a time.
func oneAtATime() (limited *httplimit.Middleware, end func()) {
	store, err := engine.Open(context.Background(), engine.Options{}) // or goredis.Open(ctx, "redis://…")
	if err != nil {
		panic(err)
	}
	client, err := redoubt.New(store, redoubt.Options{})
	if err != nil {
		panic(err)
	}
	limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(2)})
	if err != nil {
		panic(err)
	}
	places, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 1})
	if err != nil {
		panic(err)
	}
	clients, err := httplimit.ClientIP(httplimit.IPOptions{}) // name your proxies in Trusted
	if err != nil {
		panic(err)
	}
	limited, err = httplimit.New(httplimit.Options{Policies: []httplimit.Policy{
		{Name: "api", Limiter: limits, Key: clients},
		{Name: "busy", Concurrency: places},
	}})
	if err != nil {
		panic(err)
	}
	return limited, func() {
		_ = client.Close()
		_ = store.Close()
	}
}

// show sends three requests to handler, over HTTP. Its /hello calls inside, which sends another one.
func show(handler http.Handler, inside *func()) {
	server := httptest.NewServer(handler)
	defer server.Close()
	get := func() {
		res, err := server.Client().Get(server.URL + "/hello")
		if err != nil {
			panic(err)
		}
		fmt.Println(res.StatusCode, res.Header.Get("RateLimit"))
		_ = res.Body.Close()
	}
	*inside = get
	get()
	*inside = func() {}
	get()
	get()
}

// The middleware of chi is that of net/http.
func Example_chi() {
	limited, end := oneAtATime()
	defer end()
	var inside func()

	router := chi.NewRouter()
	router.Use(limited.Wrap)
	router.Get("/hello", func(w http.ResponseWriter, _ *http.Request) {
		inside()
		_, _ = w.Write([]byte("hello"))
	})

	show(router, &inside)
	// Output:
	// 429 "busy";r=0
	// 200 "api";r=1;t=1800, "busy";r=0
	// 200 "api";r=0;t=3600, "busy";r=0
	// 429 "api";r=0;t=1800
}

// Echo wraps the middleware of net/http.
func Example_echo() {
	limited, end := oneAtATime()
	defer end()
	var inside func()

	router := echo.New()
	router.Use(echo.WrapMiddleware(limited.Wrap))
	router.GET("/hello", func(c *echo.Context) error {
		inside()
		return c.String(http.StatusOK, "hello")
	})

	show(router, &inside)
	// Output:
	// 429 "busy";r=0
	// 200 "api";r=1;t=1800, "busy";r=0
	// 200 "api";r=0;t=3600, "busy";r=0
	// 429 "api";r=0;t=1800
}

// Gin has no wrapper for middleware of net/http. These lines are one: the handlers run inside the middleware, and a
// refused request must not reach them.
func Example_gin() {
	limited, end := oneAtATime()
	defer end()
	var inside func()

	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(func(c *gin.Context) {
		passed := false
		limited.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed, c.Request = true, r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	})
	router.GET("/hello", func(c *gin.Context) {
		inside()
		c.String(http.StatusOK, "hello")
	})

	show(router, &inside)
	// Output:
	// 429 "busy";r=0
	// 200 "api";r=1;t=1800, "busy";r=0
	// 200 "api";r=0;t=3600, "busy";r=0
	// 429 "api";r=0;t=1800
}

// TestGinLines: the page has the lines of Example_gin. They are no snippet of Go there, because TestGoSnippets would
// compile Gin in `make test`.
func TestGinLines(t *testing.T) {
	example, err := os.ReadFile("frameworks_test.go")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, s := range snippets.Of(t, repository, "text") {
		if s.File != filepath.Join("docs", "rate-limits.md") || !strings.HasPrefix(s.Text, "router.Use(") {
			continue
		}
		found = true
		lines := "\t" + strings.ReplaceAll(strings.TrimSuffix(s.Text, "\n"), "\n", "\n\t")
		if !strings.Contains(string(example), lines) {
			t.Errorf("%s: Example_gin doesn't have these lines:\n%s", s.Where(), s.Text)
		}
	}
	if !found {
		t.Error("docs/rate-limits.md doesn't have the lines for Gin")
	}
}
