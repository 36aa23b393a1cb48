package otelobserve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/queue"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/redoubt-go/redoubt/observe/otelobserve"

// Options configure a [Telemetry]. The zero value is ready to use.
type Options struct {
	// TracerProvider, MeterProvider and Propagator default to OpenTelemetry's global ones. The global
	// Propagator writes nothing until the program sets it: see otel.SetTextMapPropagator.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	Propagator     propagation.TextMapPropagator
	// Server is the address of the server as host:port, for the attributes server.address and server.port.
	// In a cluster a single command has the address of its node. May be empty.
	Server string
	// NoRootSpans leaves out the spans of calls whose context has no span, such as renewals of leases and
	// the calls of a consumer that waits. Metrics count all calls.
	NoRootSpans bool
	// SameTrace makes the span of a message's handler a child of the producer's span. By default it is in
	// a trace of its own, with a link.
	SameTrace bool
}

// A Telemetry makes spans and metrics. All methods may be called by many goroutines at once.
type Telemetry struct {
	opts      Options
	server    []attribute.KeyValue
	tracer    trace.Tracer
	calls     metric.Float64Histogram
	events    metric.Int64Counter
	took      metric.Float64Histogram
	processed metric.Float64Histogram
}

// New returns a Telemetry. It reports all faults of opts.
func New(opts Options) (*Telemetry, error) {
	if opts.TracerProvider == nil {
		opts.TracerProvider = otel.GetTracerProvider()
	}
	if opts.MeterProvider == nil {
		opts.MeterProvider = otel.GetMeterProvider()
	}
	if opts.Propagator == nil {
		opts.Propagator = otel.GetTextMapPropagator()
	}
	t := &Telemetry{opts: opts, tracer: opts.TracerProvider.Tracer(scope)}
	var errs [5]error
	if opts.Server != "" {
		t.server, errs[0] = addressOf(opts.Server)
	}
	meter := opts.MeterProvider.Meter(scope)
	t.calls, errs[1] = meter.Float64Histogram("db.client.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of database client operations."),
		metric.WithExplicitBucketBoundaries(.001, .005, .01, .05, .1, .5, 1, 5, 10)) // as the conventions want
	t.events, errs[2] = meter.Int64Counter("redoubt.events", metric.WithUnit("{event}"),
		metric.WithDescription("Events of the primitives, such as lost leases and dead messages."))
	t.took, errs[3] = meter.Float64Histogram("redoubt.event.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of waits, handlers and loads; of started, how long the message was ready before."),
		metric.WithExplicitBucketBoundaries(.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600))
	t.processed, errs[4] = meter.Float64Histogram("messaging.process.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of processing operation."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10)) // as the conventions want
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return t, nil
}

// addressOf returns the attributes of a server.
func addressOf(server string) ([]attribute.KeyValue, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, fmt.Errorf("otelobserve: Server is %q; want host:port: %w", server, err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("otelobserve: Server is %q; want a number for the port", server)
	}
	return []attribute.KeyValue{attribute.String("server.address", host), attribute.Int("server.port", n)}, nil
}

// Observer returns the Observer for the options of clients. Several observers are combined by
// redoubt.JoinObservers.
func (t *Telemetry) Observer() redoubt.Observer {
	return redoubt.Observer{OnCall: t.onCall, OnEvent: t.onEvent}
}

func (t *Telemetry) onCall(ctx context.Context, call redoubt.Call) (context.Context, func(error)) {
	began := time.Now()
	name, attrs := t.describe(call)
	span := trace.Span(nil)
	if !t.opts.NoRootSpans || trace.SpanContextFromContext(ctx).IsValid() {
		ctx, span = t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(began), trace.WithAttributes(attrs...))
		if call.Script != nil {
			span.SetAttributes(attribute.String("db.stored_procedure.name", call.Script.Digest()))
		}
	}
	return ctx, func(err error) {
		if err != nil {
			failed := []attribute.KeyValue{attribute.String("error.type", redoubt.ErrorLabel(err))}
			if se, ok := errors.AsType[redoubt.ServerError](err); ok {
				failed = append(failed, attribute.String("db.response.status_code", redoubt.ErrorLabel(se)))
			}
			attrs = append(attrs, failed...)
			if span != nil {
				span.SetAttributes(failed...)
				span.SetStatus(codes.Error, err.Error())
			}
		}
		if span != nil {
			span.End()
		}
		t.calls.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(attrs...))
	}
}

// describe returns the name of a call's span and the attributes that its metric has too.
func (t *Telemetry) describe(call redoubt.Call) (name string, attrs []attribute.KeyValue) {
	name = call.Operation
	command := strings.ToUpper(name)
	if call.Script != nil {
		command = "EVALSHA"
	}
	switch {
	case call.Size > 1 && name == "pipeline":
		name, command = "PIPELINE", "PIPELINE"
	case call.Size > 1:
		name, command = "PIPELINE "+name, "PIPELINE "+command
	}
	attrs = make([]attribute.KeyValue, 0, 8)
	attrs = append(attrs,
		attribute.String("db.system.name", "redis"),
		attribute.String("db.operation.name", command),
		attribute.String("redoubt.operation", call.Operation),
	)
	if call.Size > 1 {
		attrs = append(attrs, attribute.Int("db.operation.batch.size", call.Size))
	}
	server := t.server
	if call.Node != "" {
		if node, err := addressOf(call.Node); err == nil {
			server = node
		}
	}
	return name, append(attrs, server...)
}

func (t *Telemetry) onEvent(ctx context.Context, e redoubt.Event) {
	attrs := make([]attribute.KeyValue, 0, 4)
	attrs = append(attrs, attribute.String("redoubt.primitive", e.Primitive), attribute.String("redoubt.event", string(e.Kind)))
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		more := []attribute.KeyValue{attribute.String("redoubt.name", e.Name)}
		if e.ID != "" {
			more = append(more, attribute.String("redoubt.id", e.ID))
		}
		if e.Err != nil {
			more = append(more, attribute.String("exception.message", e.Err.Error()))
		}
		span.AddEvent(e.Primitive+" "+string(e.Kind), trace.WithAttributes(more...))
	}
	switch policy, _, ok := strings.Cut(e.Name, ":"); {
	case e.Primitive == "queue", e.Primitive == "cache": // a program has few of them
		attrs = append(attrs, attribute.String("redoubt.name", e.Name))
	case ok && (e.Kind == redoubt.EventAllowed || e.Kind == redoubt.EventDenied):
		attrs = append(attrs, attribute.String("redoubt.name", policy))
	}
	what := metric.WithAttributes(attrs...)
	t.events.Add(ctx, 1, what)
	if e.Took > 0 || e.Kind == "started" { // most messages are started at once
		t.took.Record(ctx, e.Took.Seconds(), what)
	}
}

// Headers is for the Headers of queue.Options: it returns the trace context of ctx, and its baggage if the
// Propagator carries that.
func (t *Telemetry) Headers(ctx context.Context) map[string]string {
	headers := propagation.MapCarrier{}
	t.opts.Propagator.Inject(ctx, headers)
	return headers
}

var _ queue.Middleware = (*Telemetry)(nil).Process

// Process is a queue.Middleware: it makes a span of each call of a handler. A failed handler fails the span;
// a snoozed message doesn't.
func (t *Telemetry) Process(ctx context.Context, job *queue.Job, next func(ctx context.Context) error) (err error) {
	began := time.Now()
	attrs := []attribute.KeyValue{
		attribute.String("messaging.system", "redoubt"),
		attribute.String("messaging.operation.name", "process"),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.destination.name", job.Queue),
	}
	opts := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(began), trace.WithAttributes(attrs...),
		trace.WithAttributes(attribute.String("messaging.message.id", job.ID), attribute.Int("redoubt.attempt", job.Attempt)),
	}
	around := trace.SpanFromContext(ctx)
	// With the baggage of the producer, and without the span around Run.
	ctx = t.opts.Propagator.Extract(trace.ContextWithSpanContext(ctx, trace.SpanContext{}), propagation.MapCarrier(job.Headers))
	if producer := trace.SpanContextFromContext(ctx); !t.opts.SameTrace || !producer.IsValid() {
		if producer.IsValid() {
			opts = append(opts, trace.WithLinks(trace.Link{SpanContext: producer}))
		}
		ctx = trace.ContextWithSpan(ctx, around)
	}
	ctx, span := t.tracer.Start(ctx, "process "+job.Queue, opts...)
	finished := false
	defer func() {
		if !finished { // the queue makes an error of the panic
			err = errPanic
		}
		if _, snoozed := errors.AsType[*queue.SnoozeError](err); err != nil && !snoozed {
			kind := attribute.String("error.type", fmt.Sprintf("%T", err))
			if !finished {
				kind = attribute.String("error.type", "panic")
			}
			attrs = append(attrs, kind)
			span.SetAttributes(kind)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
		t.processed.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(attrs...))
	}()
	err = next(ctx)
	finished = true
	return err
}

var errPanic = errors.New("the handler panicked or ended its goroutine")
