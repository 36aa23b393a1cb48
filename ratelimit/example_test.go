package ratelimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/redoubt-go/redoubt/ratelimit"
)

func Example() {
	ctx, client := context.Background(), connect()

	limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerMinute(3)})
	if err != nil {
		panic(err)
	}
	for range 4 {
		d, err := limits.Allow(ctx, "user:42")
		if err != nil {
			panic(err)
		}
		if d.Allowed {
			fmt.Println("allowed,", d.Remaining, "left")
		} else {
			fmt.Println("refused, retry after", d.RetryAfter.Round(time.Second))
		}
	}
	// Output:
	// allowed, 2 left
	// allowed, 1 left
	// allowed, 0 left
	// refused, retry after 20s
}

// A limit on bytes: 1 MiB a second, of which a quarter may come at once.
func ExampleLimiter_AllowN() {
	ctx, client := context.Background(), connect()

	limits, err := ratelimit.New(client, ratelimit.Options{
		Limit: ratelimit.Limit{Rate: 1 << 20, Period: time.Second, Burst: 256 << 10},
	})
	if err != nil {
		panic(err)
	}
	for _, size := range []int{200 << 10, 1 << 20} {
		d, err := limits.AllowN(ctx, "upload:42", size)
		if err != nil {
			panic(err)
		}
		fmt.Println(size, "bytes:", d.Allowed, d.RetryAfter == ratelimit.Never)
	}
	// Output:
	// 204800 bytes: true false
	// 1048576 bytes: false true
}

func ExampleLimiter_Peek() {
	ctx, client := context.Background(), connect()

	limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(100)})
	if err != nil {
		panic(err)
	}
	for range 2 {
		d, err := limits.Peek(ctx, "user:42")
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Allowed, d.Remaining, "of", d.Limit.Burst)
	}
	// Output:
	// true 100 of 100
	// true 100 of 100
}

// A handler that answers 429 to whoever is over the limit.
func ExampleLimiter_Allow_http() {
	client := connect()

	limits, err := ratelimit.New(client, ratelimit.Options{
		Limit: ratelimit.Limit{Rate: 30, Period: time.Minute, Burst: 1},
	})
	if err != nil {
		panic(err)
	}
	limited := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			d, err := limits.Allow(r.Context(), "api:"+r.Header.Get("Api-Key"))
			if err == nil && !d.Allowed {
				seconds := (d.RetryAfter + time.Second - 1) / time.Second
				w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
				http.Error(w, "too many requests", http.StatusTooManyRequests)
				return
			}
			next(w, r) // also when the limiter can't be reached
		}
	}

	hello := limited(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for range 2 {
		w := httptest.NewRecorder()
		hello(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 204 ""
	// 429 "2"
}
