package otelobserve_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/test/clienttest"
	"github.com/redoubt-go/redoubt/internal/test/expect"
	"github.com/redoubt-go/redoubt/internal/test/redistest"
	"github.com/redoubt-go/redoubt/lock"
	"github.com/redoubt-go/redoubt/observe/otelobserve"
	"github.com/redoubt-go/redoubt/queue"
	"github.com/redoubt-go/redoubt/ratelimit"
)

var must = expect.Must

// An env is a client on one back end, with what it exports.
type env struct {
	client    *redoubt.Client
	telemetry *otelobserve.Telemetry
	tracer    trace.Tracer
	spans     *tracetest.InMemoryExporter
	metrics   *sdkmetric.ManualReader
}

func each(t *testing.T, opts otelobserve.Options, run func(t *testing.T, e *env)) {
	redistest.Each(t, func(t *testing.T, b redistest.Backend) {
		e := &env{spans: tracetest.NewInMemoryExporter(), metrics: sdkmetric.NewManualReader()}
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(e.spans))
		e.tracer = tracers.Tracer("test")
		opts.TracerProvider, opts.MeterProvider = tracers, sdkmetric.NewMeterProvider(sdkmetric.WithReader(e.metrics))
		opts.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
		opts.Server = b.Addr
		var err error
		e.telemetry, err = otelobserve.New(opts)
		must(t, err)
		e.client, err = redoubt.New(clienttest.Wrap(t, clienttest.Dial(t, b.Addr)),
			redoubt.Options{Prefix: b.Prefix, DownAfter: 10 * time.Second, Observer: e.telemetry.Observer()})
		must(t, err)
		t.Cleanup(func() { _ = e.client.Close() })
		run(t, e)
	})
}

// span returns the only span called name.
func (e *env) span(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	var names []string
	for _, s := range e.spans.GetSpans() {
		names = append(names, s.Name)
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans are called %q; there are %q", len(found), name, names)
	}
	return found[0]
}

// metric returns the data of a metric.
func (e *env) metric(t *testing.T, name string) metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	must(t, e.metrics.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == name {
				return m
			}
		}
	}
	t.Fatalf("there is no metric %s", name)
	return metricdata.Metrics{}
}

// text returns attributes as a line for each, sorted.
func text(attrs []attribute.KeyValue) (lines []string) {
	for _, a := range attrs {
		if !strings.HasPrefix(string(a.Key), "server.") {
			lines = append(lines, string(a.Key)+"="+a.Value.String())
		}
	}
	slices.Sort(lines)
	return lines
}

func expectAttrs(t *testing.T, of string, got []attribute.KeyValue, want ...string) {
	t.Helper()
	if lines := text(got); !slices.Equal(lines, want) {
		t.Errorf("%s has the attributes\n%q\nwant\n%q", of, lines, want)
	}
}

// Promise: each command and pipeline is a span of kind CLIENT below the span of its caller, with the
// attributes of OpenTelemetry's conventions, and without keys and arguments.
func TestCallsAreSpans(t *testing.T) {
	each(t, otelobserve.Options{}, func(t *testing.T, e *env) {
		ctx, request := e.tracer.Start(t.Context(), "request")
		locks, err := lock.New(e.client, lock.Options{})
		must(t, err)
		lease, err := locks.Acquire(ctx, "secret-name")
		must(t, err)
		key, err := e.client.Key("secret-name", "lock")
		must(t, err)
		get := redoubt.Cmd{Name: "GET", Keys: []string{key}}
		if err := e.client.Do(ctx, get).Err; !errors.Is(err, redoubt.ErrWrongType) {
			t.Fatalf("GET of a lock: %v", err)
		}
		ping := redoubt.Cmd{Name: "PING"}
		e.client.Pipeline(ctx, []redoubt.Cmd{ping, ping})
		e.client.Pipeline(ctx, []redoubt.Cmd{ping, {Name: "EXISTS", Keys: []string{key}}})
		must(t, e.client.Do(ctx, redoubt.Cmd{Name: "DEL", Keys: []string{key}}).Err)
		expect.Is(t, lease.Extend(ctx, time.Minute), lock.ErrNotHeld)
		request.End()

		acquire := e.span(t, "lock.acquire")
		digest := ""
		for _, a := range acquire.Attributes {
			if a.Key == "db.stored_procedure.name" {
				digest = a.Value.AsString()
			}
		}
		if len(digest) != 40 {
			t.Errorf("db.stored_procedure.name is %q; want a digest", digest)
		}
		expectAttrs(t, "lock.acquire", acquire.Attributes,
			"db.operation.name=EVALSHA", "db.stored_procedure.name="+digest, "db.system.name=redis", "redoubt.operation=lock.acquire")
		failed := e.span(t, "GET")
		expectAttrs(t, "GET", failed.Attributes, "db.operation.name=GET", "db.response.status_code=WRONGTYPE", "db.system.name=redis", "error.type=WRONGTYPE", "redoubt.operation=GET")
		if failed.Status.Code != codes.Error || acquire.Status.Code != codes.Unset {
			t.Errorf("the statuses are %v and %v", failed.Status, acquire.Status)
		}
		expectAttrs(t, "two PINGs", e.span(t, "PIPELINE PING").Attributes,
			"db.operation.batch.size=2", "db.operation.name=PIPELINE PING", "db.system.name=redis", "redoubt.operation=PING")
		expectAttrs(t, "a mixed pipeline", e.span(t, "PIPELINE").Attributes,
			"db.operation.batch.size=2", "db.operation.name=PIPELINE", "db.system.name=redis", "redoubt.operation=pipeline")
		for _, s := range e.spans.GetSpans() {
			if s.Name == "request" {
				continue
			}
			if s.SpanKind != trace.SpanKindClient || s.Parent.SpanID() != request.SpanContext().SpanID() {
				t.Errorf("span %s is of kind %v below %v", s.Name, s.SpanKind, s.Parent)
			}
			if !slices.ContainsFunc(s.Attributes, func(a attribute.KeyValue) bool { return a.Key == "server.address" && a.Value.AsString() == "127.0.0.1" }) {
				t.Errorf("span %s has no server.address: %v", s.Name, s.Attributes)
			}
			for _, line := range text(s.Attributes) {
				if strings.Contains(line, "secret-name") {
					t.Errorf("span %s shows a key: %s", s.Name, line)
				}
			}
		}

		m := e.metric(t, "db.client.operation.duration")
		points := m.Data.(metricdata.Histogram[float64]).DataPoints
		if m.Unit != "s" || len(points) != 6 {
			t.Errorf("db.client.operation.duration has unit %q and %d series; want 6", m.Unit, len(points))
		}
		lost := e.metric(t, "redoubt.events").Data.(metricdata.Sum[int64]).DataPoints
		if len(lost) != 1 || lost[0].Value != 1 {
			t.Fatalf("events: %+v", lost)
		}
		expectAttrs(t, "the event", lost[0].Attributes.ToSlice(), "redoubt.event=lost", "redoubt.primitive=lock")
	})
}

// TestDecisionsAreByPolicy: the decisions of a policy have its name; decisions of other limits have none.
func TestDecisionsAreByPolicy(t *testing.T) {
	each(t, otelobserve.Options{}, func(t *testing.T, e *env) {
		limits, err := ratelimit.New(e.client, ratelimit.Options{Limit: ratelimit.PerHour(1)})
		must(t, err)
		for _, name := range []string{"api:192.0.2.7", "api:192.0.2.7", "user 7"} {
			_, err := limits.Allow(t.Context(), name)
			must(t, err)
		}
		var got []string
		for _, p := range e.metric(t, "redoubt.events").Data.(metricdata.Sum[int64]).DataPoints {
			got = append(got, fmt.Sprint(p.Value, text(p.Attributes.ToSlice())))
		}
		slices.Sort(got)
		want := []string{
			"1 [redoubt.event=allowed redoubt.name=api redoubt.primitive=ratelimit]",
			"1 [redoubt.event=allowed redoubt.primitive=ratelimit]",
			"1 [redoubt.event=denied redoubt.name=api redoubt.primitive=ratelimit]",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the events are %q, want %q", got, want)
		}
	})
}

// Promise: the span of a message's handler has a link to the span in which the message was put, or is a child of
// it with SameTrace.
func TestMessageLinksToItsProducer(t *testing.T) {
	for name, same := range map[string]bool{"link": false, "same trace": true} {
		t.Run(name, func(t *testing.T) {
			each(t, otelobserve.Options{SameTrace: same, NoRootSpans: true}, func(t *testing.T, e *env) {
				mails, err := queue.New[string](e.client, queue.Options{Headers: e.telemetry.Headers, Attempts: 1})
				must(t, err)
				ctx, producer := e.tracer.Start(t.Context(), "request")
				_, err = mails.PutRequest(ctx, "mails", queue.Request[string]{ID: "m-1", Value: "hello"})
				must(t, err)
				producer.End()
				var inside trace.SpanContext
				_, err = mails.Work(t.Context(), "mails", func(ctx context.Context, _ *queue.Delivery[string]) error {
					inside = trace.SpanContextFromContext(ctx)
					return errors.New("no such mailbox")
				}, queue.RunOptions{Middleware: []queue.Middleware{e.telemetry.Process}})
				must(t, err)

				s := e.span(t, "process mails")
				if s.SpanKind != trace.SpanKindConsumer || s.Status.Code != codes.Error || inside.SpanID() != s.SpanContext.SpanID() {
					t.Errorf("the span is of kind %v, with status %v; the handler ran in %v", s.SpanKind, s.Status, inside)
				}
				from := producer.SpanContext()
				if same {
					if s.Parent.SpanID() != from.SpanID() || s.SpanContext.TraceID() != from.TraceID() || len(s.Links) != 0 {
						t.Errorf("the parent is %v, the links %v; want the parent %v", s.Parent, s.Links, from)
					}
				} else if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != from.SpanID() || s.Links[0].SpanContext.TraceID() != from.TraceID() || s.Parent.IsValid() {
					t.Errorf("the parent is %v, the links %v; want a link to %v", s.Parent, s.Links, from)
				}
				expectAttrs(t, "process mails", s.Attributes, "error.type=*errors.errorString",
					"messaging.destination.name=mails", "messaging.message.id=m-1", "messaging.operation.name=process",
					"messaging.operation.type=process", "messaging.system=redoubt", "redoubt.attempt=1")
				points := e.metric(t, "messaging.process.duration").Data.(metricdata.Histogram[float64]).DataPoints
				if len(points) != 1 || points[0].Count != 1 {
					t.Errorf("messaging.process.duration: %+v", points)
				}
				for _, stub := range e.spans.GetSpans() {
					if stub.Name == "queue.pump" && !stub.Parent.IsValid() {
						t.Error("NoRootSpans leaves a root span for the pump")
					}
				}
			})
		})
	}
}

// A snoozed message is no error, a panic is one.
func TestProcessOutcomes(t *testing.T) {
	each(t, otelobserve.Options{}, func(t *testing.T, e *env) {
		for name, c := range map[string]struct {
			handler func() error
			code    codes.Code
		}{
			"snoozed":  {func() error { return queue.Snooze(time.Hour) }, codes.Unset},
			"done":     {func() error { return nil }, codes.Unset},
			"panicked": {func() error { panic("oh") }, codes.Error},
		} {
			q, err := queue.New[string](e.client, queue.Options{})
			must(t, err)
			_, err = q.Put(t.Context(), name, "x")
			must(t, err)
			_, err = q.Work(t.Context(), name, func(context.Context, *queue.Delivery[string]) error { return c.handler() },
				queue.RunOptions{Middleware: []queue.Middleware{e.telemetry.Process}})
			must(t, err)
			if s := e.span(t, "process "+name); s.Status.Code != c.code || len(s.Links) != 0 {
				t.Errorf("%s: status %v, links %v", name, s.Status, s.Links)
			}
		}
	})
}

func TestNewRejects(t *testing.T) {
	_, err := otelobserve.New(otelobserve.Options{Server: "localhost"})
	expect.Says(t, err, `Server is "localhost"`, "want host:port")
	_, err = otelobserve.New(otelobserve.Options{Server: "localhost:redis"})
	expect.Says(t, err, "want a number for the port")
}
