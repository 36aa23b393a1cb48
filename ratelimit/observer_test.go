package ratelimit_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/ratelimit"
)

// TestDecisionsAreObserved: each decision that takes something is one event, also when no command was sent for it.
func TestDecisionsAreObserved(t *testing.T) {
	store, err := engine.Open(t.Context(), engine.Options{})
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	var events []string
	client, err := redoubt.New(store, redoubt.Options{Observer: redoubt.Observer{OnEvent: func(_ context.Context, e redoubt.Event) {
		events = append(events, fmt.Sprintf("%s %s %s %v", e.Primitive, e.Name, e.Kind, e.Err))
	}}})
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	limiter, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(2)})
	must(t, err)
	leased, err := ratelimit.NewLeased(limiter, ratelimit.LeasedOptions{Tokens: 2})
	must(t, err)
	window, err := ratelimit.NewWindow(client, ratelimit.WindowOptions{Limit: ratelimit.PerHour(2)})
	must(t, err)
	quota, err := ratelimit.NewQuota(client, ratelimit.QuotaOptions{Allowance: ratelimit.Allowance{Calls: 2, Per: ratelimit.Day}})
	must(t, err)
	calls, err := ratelimit.NewConcurrency(client, ratelimit.ConcurrencyOptions{Limit: 2})
	must(t, err)
	for what, ask := range map[string]func(n int) error{
		"limiter": func(n int) error { _, err := limiter.AllowN(t.Context(), "limiter", n); return err },
		"up to":   func(n int) error { _, err := limiter.TakeUpTo(t.Context(), "up to", max(1, n)); return err },
		"many": func(n int) error {
			return limiter.AllowMany(t.Context(), []ratelimit.Request{{Name: "many", N: n}})[0].Err
		},
		"leased":      func(n int) error { _, err := leased.AllowN(t.Context(), "leased", n); return err },
		"window":      func(n int) error { _, err := window.AllowN(t.Context(), "window", n); return err },
		"quota":       func(n int) error { _, err := quota.AllowN(t.Context(), "quota", n); return err },
		"concurrency": func(int) error { _, _, err := calls.Begin(t.Context(), "concurrency"); return err },
	} {
		events = nil
		for range 4 {
			must(t, ask(1))
		}
		want := slices.Concat(slices.Repeat([]string{"ratelimit " + what + " allowed <nil>"}, 2), slices.Repeat([]string{"ratelimit " + what + " denied <nil>"}, 2))
		if !slices.Equal(events, want) {
			t.Errorf("%s: %q, want %q", what, events, want)
		}
	}
	events = nil
	if _, err := limiter.AllowN(t.Context(), "looked at", 0); err != nil || len(events) > 0 {
		t.Errorf("a call for no token: %v, %q", err, events)
	}
	must(t, leased.Close())

	var decided []ratelimit.Decision
	events = nil
	for _, mode := range []ratelimit.FailureMode{ratelimit.FailOpen, ratelimit.FailClosed} {
		l, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(2), OnFailure: mode})
		must(t, err)
		must(t, store.Close())
		decided = append(decided, allow(t, l, "away", 1))
	}
	want := []string{fmt.Sprintf("ratelimit away allowed %v", decided[0].Degraded), fmt.Sprintf("ratelimit away denied %v", decided[1].Degraded)}
	if !slices.Equal(events, want) || decided[0].Degraded == nil || decided[1].Degraded == nil {
		t.Errorf("without the server: %q, want %q", events, want)
	}
}
