package otelobserve_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/engine"
	"github.com/redoubt-go/redoubt/observe/otelobserve"
	"github.com/redoubt-go/redoubt/queue"
)

// The trace of a message's handler has a link to the trace in which the message was put.
func Example() {
	ctx := context.Background()
	exported := tracetest.NewInMemoryExporter() // or an exporter of OTLP
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exported))
	telemetry, err := otelobserve.New(otelobserve.Options{
		TracerProvider: tracers,
		Propagator:     propagation.TraceContext{},
		NoRootSpans:    true,
	})
	if err != nil {
		panic(err)
	}
	store, err := engine.Open(ctx, engine.Options{}) // or redoubt.Open(ctx, "redis://…", …)
	if err != nil {
		panic(err)
	}
	defer func() { _ = store.Close() }()
	client, err := redoubt.New(store, redoubt.Options{Observer: telemetry.Observer()})
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }()
	mails, err := queue.New[string](client, queue.Options{Headers: telemetry.Headers})
	if err != nil {
		panic(err)
	}

	request, span := tracers.Tracer("shop").Start(ctx, "POST /orders")
	if _, err := mails.Put(request, "mails", "hello"); err != nil {
		panic(err)
	}
	span.End()
	_, err = mails.Work(ctx, "mails", func(context.Context, *queue.Delivery[string]) error { return nil },
		queue.RunOptions{Middleware: []queue.Middleware{telemetry.Process}})
	if err != nil {
		panic(err)
	}

	for _, s := range exported.GetSpans() {
		fmt.Println(s.SpanKind, s.Name)
		for _, l := range s.Links {
			fmt.Println("  link to POST /orders:", l.SpanContext.SpanID() == span.SpanContext().SpanID())
		}
	}
	// Output:
	// client queue.put
	// internal POST /orders
	// consumer process mails
	//   link to POST /orders: true
}
