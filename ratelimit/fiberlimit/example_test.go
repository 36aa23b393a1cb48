package fiberlimit_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/gofiber/fiber/v3"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/ratelimit"
	"github.com/redoubt-go/redoubt/ratelimit/fiberlimit"
	"github.com/redoubt-go/redoubt/ratelimit/httplimit"
)

// Each client may make two requests an hour.
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
	limited, err := fiberlimit.New(fiberlimit.Options{Policies: []fiberlimit.Policy{
		{Name: "api", Limiter: limits, Key: fiberlimit.FromHTTP(clients)},
	}})
	if err != nil {
		panic(err)
	}

	app := fiber.New()
	app.Use(limited.Handle)
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello") })
	for range 3 {
		res, err := app.Test(httptest.NewRequestWithContext(context.Background(), "GET", "/", nil))
		if err != nil {
			panic(err)
		}
		fmt.Println(res.StatusCode, res.Header.Get("RateLimit-Policy"), res.Header.Get("RateLimit"))
		_ = res.Body.Close()
	}
	// Output:
	// 200 "api";q=2;w=3600 "api";r=1;t=1800
	// 200 "api";q=2;w=3600 "api";r=0;t=3600
	// 429 "api";q=2;w=3600 "api";r=0;t=1800
}
