//go:build !quick

package tests

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/cache"
	"github.com/redoubt-go/redoubt/engine"
)

// observe makes events of a cache into metrics and spans of OpenTelemetry: a counter of
// what happened, a histogram of how long loads and waits took, an event on the span of the
// caller, and a span for each load below the span of the caller that began it.
func observe(meter metric.Meter, tracer trace.Tracer) (func(ctx context.Context, e cache.Event), error) {
	events, err := meter.Int64Counter("cache.events")
	if err != nil {
		return nil, err
	}
	took, err := meter.Float64Histogram("cache.took", metric.WithUnit("s"))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, e cache.Event) {
		what := metric.WithAttributes(attribute.String("cache", e.Cache), attribute.String("event", string(e.Kind)))
		events.Add(ctx, 1, what)
		trace.SpanFromContext(ctx).AddEvent("cache "+string(e.Kind), trace.WithAttributes(attribute.String("key", e.Key)))
		if e.Kind == cache.Loaded || e.Kind == cache.Waited {
			took.Record(ctx, e.Took.Seconds(), what)
		}
		if e.Kind == cache.Loaded {
			end := time.Now()
			_, span := tracer.Start(ctx, "load "+e.Cache, trace.WithTimestamp(end.Add(-e.Took)))
			if e.Err != nil {
				span.RecordError(e.Err)
			}
			span.End(trace.WithTimestamp(end))
		}
	}, nil
}

// A cache is observed by OpenTelemetry. There is no event for each hit of the local
// level: an observable counter reads their number from Stats.
func Example_cacheOpenTelemetry() {
	ctx := context.Background()
	reader, spans := sdkmetric.NewManualReader(), tracetest.NewInMemoryExporter()
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("users")
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("users")
	events, err := observe(meter, tracer)
	if err != nil {
		panic(err)
	}
	server, err := engine.Open(ctx, engine.Options{}) // or goredis.Open
	if err != nil {
		panic(err)
	}
	defer func() { _ = server.Close() }()
	client, err := redoubt.New(server, redoubt.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()
	users, err := cache.New(client, cache.Options[int64, string]{Name: "users", TTL: time.Hour, NoEarlyRefresh: true, OnEvent: events})
	if err != nil {
		panic(err)
	}
	defer func() { _ = users.Close() }()
	_, err = meter.Int64ObservableCounter("cache.local_hits", metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(users.Stats().LocalHits)
		return nil
	}))
	if err != nil {
		panic(err)
	}

	ctx, request := tracer.Start(ctx, "request")
	for _, id := range []int64{1, 1, 2, 2} {
		if _, _, err := users.Get(ctx, id, func(_ context.Context, id int64) (string, bool, error) { return "Ann", id == 1, nil }); err != nil {
			panic(err)
		}
	}
	request.End()

	for _, s := range spans.GetSpans() {
		fmt.Println("span", s.Name, "under another:", s.Parent.IsValid(), "events:", len(s.Events))
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		panic(err)
	}
	var lines []string
	for _, m := range all.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
			for _, p := range sum.DataPoints {
				kind, _ := p.Attributes.Value("event")
				lines = append(lines, fmt.Sprint(m.Name, " ", kind.AsString(), " ", p.Value))
			}
		}
	}
	slices.Sort(lines)
	for _, l := range lines {
		fmt.Println(l)
	}
	// Output:
	// span load users under another: true events: 0
	// span load users under another: true events: 0
	// span request under another: false events: 4
	// cache.events hit 1
	// cache.events loaded 2
	// cache.events negative 1
	// cache.local_hits  0
}
