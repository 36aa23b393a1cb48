package promobserve_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/observe/promobserve"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/ratelimit"
)

var must = expect.Must

func collector(t *testing.T, opts promobserve.Options) (*promobserve.Collector, *prometheus.Registry) {
	t.Helper()
	c, err := promobserve.New(opts)
	must(t, err)
	registry := prometheus.NewPedanticRegistry()
	must(t, registry.Register(c))
	return c, registry
}

// Promise: the metrics count each call and each event of a client, with native histograms and classic buckets
// beside them, under names that Prometheus' linter accepts.
func TestMetrics(t *testing.T) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		metrics, registry := collector(t, promobserve.Options{})
		client, err := redoubt.New(clienttest.Wrap(t, clienttest.Dial(t, b.Addr)),
			redoubt.Options{Prefix: b.Prefix, DownAfter: 10 * time.Second, Observer: metrics.Observer()})
		must(t, err)
		t.Cleanup(func() { _ = client.Close() })
		ctx := t.Context()

		locks, err := lock.New(client, lock.Options{})
		must(t, err)
		lease, err := locks.Acquire(ctx, "user:7")
		must(t, err)
		key, err := client.Key("user:7", "lock")
		must(t, err)
		must(t, client.Do(ctx, redoubt.Cmd{Name: "GETDEL", Keys: []string{key + "x"}}).Err)
		if err := client.Do(ctx, redoubt.Cmd{Name: "GET", Keys: []string{key}}).Err; !errors.Is(err, redoubt.ErrWrongType) {
			t.Fatalf("GET of a lock: %v", err)
		}
		must(t, client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}}).Err)
		expect.Is(t, lease.Extend(ctx, time.Minute), lock.ErrNotHeld)
		mails, err := queue.New[string](client, queue.Options{Attempts: 1})
		must(t, err)
		_, err = mails.Put(ctx, "mails", "x")
		must(t, err)
		_, err = mails.Work(ctx, "mails", func(context.Context, *queue.Delivery[string]) error { return errors.New("no") }, queue.RunOptions{})
		must(t, err)

		limits, err := ratelimit.New(client, ratelimit.Options{Limit: ratelimit.PerHour(1)})
		must(t, err)
		for _, name := range []string{"api:192.0.2.7", "api:192.0.2.7", "api:192.0.2.8", "user 7"} {
			_, err = limits.Allow(ctx, name)
			must(t, err)
		}

		want := `
			# HELP redoubt_client_call_errors_total Commands and pipelines that ended with an error.
			# TYPE redoubt_client_call_errors_total counter
			redoubt_client_call_errors_total{operation="GET",reason="WRONGTYPE"} 1
			# HELP redoubt_client_calls_in_flight Calls that have begun and not ended.
			# TYPE redoubt_client_calls_in_flight gauge
			redoubt_client_calls_in_flight 0
			# HELP redoubt_client_events_total Events of the primitives, such as lost leases and dead messages.
			# TYPE redoubt_client_events_total counter
			redoubt_client_events_total{kind="allowed",name="",primitive="ratelimit"} 1
			redoubt_client_events_total{kind="allowed",name="api",primitive="ratelimit"} 2
			redoubt_client_events_total{kind="denied",name="api",primitive="ratelimit"} 1
			redoubt_client_events_total{kind="died",name="mails",primitive="queue"} 1
			redoubt_client_events_total{kind="lost",name="",primitive="lock"} 1
			redoubt_client_events_total{kind="started",name="mails",primitive="queue"} 1
		`
		must(t, testutil.GatherAndCompare(registry, strings.NewReader(want),
			"redoubt_client_call_errors_total", "redoubt_client_calls_in_flight", "redoubt_client_events_total"))
		problems, err := testutil.GatherAndLint(registry)
		must(t, err)
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}

		families, err := registry.Gather()
		must(t, err)
		counts := map[string]uint64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				h := m.GetHistogram()
				if h == nil {
					continue
				}
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				counts[strings.TrimPrefix(f.GetName(), "redoubt_client_")+" "+strings.Join(labels, " ")] = h.GetSampleCount()
				if h.Schema == nil || len(h.GetPositiveSpan())+int(h.GetZeroCount()) == 0 || len(h.GetBucket()) == 0 {
					t.Errorf("%s %v: schema %v, %d spans, %d classic buckets", f.GetName(), labels, h.Schema, len(h.GetPositiveSpan()), len(h.GetBucket()))
				}
			}
		}
		for _, name := range []string{
			"call_duration_seconds lock.acquire", "call_duration_seconds lock.extend", "call_duration_seconds queue.put", "call_duration_seconds GET",
			"event_duration_seconds died mails queue", "event_duration_seconds started mails queue",
		} {
			if counts[name] != 1 {
				t.Errorf("%q has %d samples; want 1; there are %v", name, counts[name], counts)
			}
		}
	})
}

// Promise: whatever names a program uses, the number of series is bounded.
func TestLabelsAreBounded(t *testing.T) {
	metrics, registry := collector(t, promobserve.Options{Name: func(e redoubt.Event) string { return e.Name }})
	o := metrics.Observer()
	for i := range 10_000 {
		_, end := o.OnCall(t.Context(), redoubt.Call{Operation: fmt.Sprint("op", i)})
		end(nil)
		o.OnEvent(t.Context(), redoubt.Event{Primitive: "lock", Kind: redoubt.EventLost, Name: fmt.Sprint("\xff", i)})
	}
	for metric, want := range map[string]int{
		"redoubt_client_call_duration_seconds": promobserve.MaxOperations + 1,
		"redoubt_client_events_total":          promobserve.MaxNames + 1,
	} {
		n, err := testutil.GatherAndCount(registry, metric)
		must(t, err)
		if n != want {
			t.Errorf("%s has %d series; want %d", metric, n, want)
		}
	}
}

func TestNewRejects(t *testing.T) {
	_, err := promobserve.New(promobserve.Options{CallBuckets: []float64{1, 1}, EventBuckets: []float64{math.NaN()}})
	expect.Says(t, err, "CallBuckets has 1 at place 1", "EventBuckets has NaN at place 0", "ascending")
}

func BenchmarkCall(b *testing.B) {
	metrics, err := promobserve.New(promobserve.Options{})
	must(b, err)
	o := metrics.Observer()
	b.ReportAllocs()
	for b.Loop() {
		_, end := o.OnCall(b.Context(), redoubt.Call{Operation: "lock.acquire"})
		end(nil)
	}
}
