// Package otelobserve gives OpenTelemetry the calls and the events of a redoubt.Client, and links the
// consumer of a queue's message to its producer. It is a module of its own, so that the rest of Redoubt
// doesn't depend on OpenTelemetry.
//
//	telemetry, err := otelobserve.New(otelobserve.Options{})
//	…
//	client, err := redoubt.Open(ctx, url, redoubt.Options{Observer: telemetry.Observer()})
//	mails, err := queue.New[Mail](client, queue.Options{Headers: telemetry.Headers})
//	err = mails.Run(ctx, "mails", send, queue.RunOptions{Middleware: []queue.Middleware{telemetry.Process}})
//
// # Calls
//
// Each command and pipeline is a span of kind CLIENT, called like its operation: "lock.acquire", "HSET",
// "PIPELINE lock.extend". Its attributes follow OpenTelemetry's conventions for Redis:
// db.system.name, db.operation.name ("EVALSHA", "PIPELINE EVALSHA"), db.stored_procedure.name (the digest of
// the script, as SLOWLOG and MONITOR show it), db.operation.batch.size, server.address, server.port,
// db.response.status_code and error.type; and redoubt.operation. Keys and arguments are never recorded. The
// histogram db.client.operation.duration has the same attributes without the digest.
//
// # Events
//
// An event is added to the span of its caller, if there is one, and counted by redoubt.events, with the
// attributes redoubt.primitive, redoubt.event and, for a queue, a cache or a decision of a policy, redoubt.name. The histogram
// redoubt.event.duration has the time of waits, handlers and loads.
//
// # Messages
//
// Headers puts the producer's trace context into the headers of each message. Process begins a span of kind
// CONSUMER, "process mails", with a link to the producer's span; Options.SameTrace makes it a child of that
// span. The histogram messaging.process.duration has its time. A batch of messages has no such span:
// queue.Queue.RunBatch takes no middleware.
package otelobserve
