package promobserve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/observe/promobserve"
	"github.com/redoubt-go/redoubt/queue"
)

// A service counts its calls and the messages that die.
func Example() {
	ctx := context.Background()
	metrics, err := promobserve.New(promobserve.Options{})
	if err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(metrics)
	store, err := engine.Open(ctx, engine.Options{}) // or redoubt.Open(ctx, "redis://…", …)
	if err != nil {
		panic(err)
	}
	defer func() { _ = store.Close() }()
	client, err := redoubt.New(store, redoubt.Options{Observer: metrics.Observer()})
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()

	mails, err := queue.New[string](client, queue.Options{Attempts: 1})
	if err != nil {
		panic(err)
	}
	if _, err := mails.Put(ctx, "mails", "hello"); err != nil {
		panic(err)
	}
	_, err = mails.Work(ctx, "mails", func(context.Context, *queue.Delivery[string]) error {
		return errors.New("no such mailbox")
	}, queue.RunOptions{})
	if err != nil {
		panic(err)
	}

	scrape := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(scrape, httptest.NewRequest("GET", "/metrics", nil))
	for lines := bufio.NewScanner(scrape.Body); lines.Scan(); {
		if l := lines.Text(); strings.HasPrefix(l, "redoubt_client_events_total") || strings.Contains(l, `seconds_count{operation="queue.put"}`) {
			fmt.Println(l)
		}
	}
	// Output:
	// redoubt_client_call_duration_seconds_count{operation="queue.put"} 1
	// redoubt_client_events_total{kind="died",name="mails",primitive="queue"} 1
	// redoubt_client_events_total{kind="started",name="mails",primitive="queue"} 1
}
