package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
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

// A limit on bytes: 1 MiB a second, a quarter of it at once.
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

func ExampleLimiter_Info() {
	ctx, client := context.Background(), connect()

	limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(100)})
	if err != nil {
		panic(err)
	}
	for range 2 {
		d, err := limits.Info(ctx, "user:42")
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Allowed, d.Remaining, "of", d.Limit.Burst)
	}
	// Output:
	// true 100 of 100
	// true 100 of 100
}

// Twenty callers, one permit at a time: all are served, each after the one
// before it.
func ExampleLimiter_Wait() {
	ctx, client := context.Background(), connect()

	const interval = 10 * time.Millisecond
	limits, err := ratelimit.New(client, ratelimit.Options{
		Limit: ratelimit.Limit{Rate: 1, Period: interval},
	})
	if err != nil {
		panic(err)
	}
	start := time.Now()
	var callers sync.WaitGroup
	var served atomic.Int64
	for range 20 {
		callers.Go(func() {
			if err := limits.Wait(ctx, "partner-api"); err != nil {
				panic(err)
			}
			served.Add(1)
		})
	}
	callers.Wait()
	fmt.Println(served.Load(), "served, 19 intervals have passed:", time.Since(start) >= 19*interval)

	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	slow, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(1)})
	if err != nil {
		panic(err)
	}
	fmt.Println(slow.Wait(ctx, "report"))
	err = slow.Wait(ctx, "report") // returns at once
	fmt.Println(errors.Is(err, ratelimit.ErrTooLate))
	// Output:
	// 20 served, 19 intervals have passed: true
	// <nil>
	// true
}

// Places in a queue that moves on once an hour.
func ExampleLimiter_Reserve() {
	ctx, client := context.Background(), connect()

	limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(1), MaxWait: 3 * time.Hour})
	if err != nil {
		panic(err)
	}
	var last *ratelimit.Reservation
	for range 5 {
		r, err := limits.Reserve(ctx, "telescope", 1)
		if err != nil {
			panic(err)
		}
		if !r.Allowed {
			fmt.Println("not within 3h: in", r.RetryAfter.Round(time.Minute))
			continue
		}
		fmt.Println("in", r.Delay().Round(time.Minute))
		last = r
	}
	if err := last.Cancel(ctx); err != nil {
		panic(err)
	}
	r, err := limits.Reserve(ctx, "telescope", 1)
	if err != nil {
		panic(err)
	}
	fmt.Println("after a cancellation: in", r.Delay().Round(time.Minute))
	// Output:
	// in 0s
	// in 1h0m0s
	// in 2h0m0s
	// in 3h0m0s
	// not within 3h: in 4h0m0s
	// after a cancellation: in 3h0m0s
}

// 10 at once and 100 a day: a call takes from both or from neither.
func Example_several() {
	ctx, client := context.Background(), connect()

	limits, err := ratelimit.New(client, ratelimit.Options{
		Limit: ratelimit.Limit{Rate: 10, Period: time.Minute, Burst: 10},
		And:   []ratelimit.Limit{{Rate: 100, Period: 24 * time.Hour, Burst: 12}},
	})
	if err != nil {
		panic(err)
	}
	for _, n := range []int{10, 3, 2} {
		d, err := limits.AllowN(ctx, "user:42", n)
		if err != nil {
			panic(err)
		}
		fmt.Println(n, "tokens:", d.Allowed, d.Remaining, "left")
	}
	d, err := limits.TakeUpTo(ctx, "user:7", 50)
	if err != nil {
		panic(err)
	}
	fmt.Println("up to 50:", d.Taken)
	d, err = limits.Refund(ctx, "user:7", 4, "order:1")
	if err != nil {
		panic(err)
	}
	fmt.Println("after a refund of 4:", d.Remaining, "left")
	// Output:
	// 10 tokens: true 0 left
	// 3 tokens: false 0 left
	// 2 tokens: false 0 left
	// up to 50: 10
	// after a refund of 4: 4 left
}

// A limit that is kept on the server: the first process defines it, and it can
// be changed for all of them.
func ExampleLimiter_SetIfAbsent() {
	ctx, client := context.Background(), connect()

	limits, err := ratelimit.New(client, ratelimit.Options{Stored: true})
	if err != nil {
		panic(err)
	}
	_, err = limits.Allow(ctx, "partner-api")
	fmt.Println(err)

	for _, perHour := range []int{10, 20} {
		first, err := limits.SetIfAbsent(ctx, "partner-api", ratelimit.PerHour(perHour))
		if err != nil {
			panic(err)
		}
		fmt.Println(perHour, "an hour:", first)
	}
	for _, perHour := range []int{0, 5} {
		if perHour > 0 {
			if err := limits.Set(ctx, "partner-api", ratelimit.PerHour(perHour)); err != nil {
				panic(err)
			}
		}
		d, err := limits.AllowN(ctx, "partner-api", 2)
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Remaining, "of", d.Limit.Burst)
	}
	// Output:
	// ratelimit: no limit is defined under this name
	// 10 an hour: true
	// 20 an hour: false
	// 8 of 10
	// 2 of 5
}

// At most three in any minute, whenever the minute begins.
func ExampleWindow() {
	ctx, client := context.Background(), connect()

	window, err := ratelimit.NewWindow(client, ratelimit.WindowOptions{Limit: ratelimit.PerMinute(3)})
	if err != nil {
		panic(err)
	}
	for range 4 {
		d, err := window.Allow(ctx, "sms:+4912345")
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 1m0s
}

// 1,000 a month and 2 a day, where the customer is.
func ExampleQuota() {
	ctx, client := context.Background(), connect()

	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		panic(err)
	}
	quota, err := ratelimit.NewQuota(client, ratelimit.QuotaOptions{
		Allowance: ratelimit.Allowance{Calls: 1000, Per: ratelimit.Month},
		And:       []ratelimit.Allowance{{Calls: 2, Per: ratelimit.Day}},
		Location:  paris,
	})
	if err != nil {
		panic(err)
	}
	for range 3 {
		d, err := quota.Allow(ctx, "customer:7")
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Allowed, d.Remaining, "left of", d.Limit.Rate)
	}
	// Output:
	// true 1 left of 2
	// true 0 left of 2
	// false 0 left of 2
}

func ExampleConcurrency_Do() {
	ctx, client := context.Background(), connect()

	reports, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 1})
	if err != nil {
		panic(err)
	}
	_, err = reports.Do(ctx, "tenant:7", func(ctx context.Context) error {
		fmt.Println("one is under way")
		d, err := reports.Do(ctx, "tenant:7", func(context.Context) error { panic("two at a time") })
		fmt.Println("another:", d.Allowed)
		return err
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// one is under way
	// another: false
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

// Leases of tokens: a hundred calls cost a round trip or two.
func ExampleLeased() {
	client := connect()
	defer func() { _ = client.Close() }()
	ctx := context.Background()

	limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(1000)})
	if err != nil {
		panic(err)
	}
	leased, err := ratelimit.NewLeased(limits, ratelimit.LeasedOptions{Tokens: 100, TTL: time.Minute})
	if err != nil {
		panic(err)
	}
	for range 30 {
		if d, err := leased.Allow(ctx, "user:42"); err != nil || !d.Allowed {
			panic("refused")
		}
	}
	d, err := limits.Info(ctx, "user:42")
	if err != nil {
		panic(err)
	}
	fmt.Println("on the server:", d.Remaining)

	if err := leased.Close(); err != nil {
		panic(err)
	}
	if d, err = limits.Info(ctx, "user:42"); err != nil {
		panic(err)
	}
	fmt.Println("given back:", d.Remaining)
	// Output:
	// on the server: 900
	// given back: 970
}
