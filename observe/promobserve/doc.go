// Package promobserve gives Prometheus the calls and the events of a redoubt.Client. It is a module of its
// own, so that the rest of Redoubt doesn't depend on Prometheus.
//
//	metrics, err := promobserve.New(promobserve.Options{})
//	…
//	prometheus.MustRegister(metrics)
//	client, err := redoubt.Open(ctx, url, redoubt.Options{Observer: metrics.Observer()})
//
// One Collector serves any number of clients. To tell them apart, make one for each and register it by
// prometheus.WrapRegistererWith.
//
// # Metrics
//
//	redoubt_client_call_duration_seconds{operation}          histogram: commands and pipelines
//	redoubt_client_call_errors_total{operation, reason}      failed calls, by redoubt.ErrorLabel
//	redoubt_client_calls_in_flight                           gauge
//	redoubt_client_events_total{primitive, kind, name}       events: redoubt.Event
//	redoubt_client_event_duration_seconds{primitive, kind, name}  histogram: waits, handlers, loads
//
// operation is the name of a script or a command, like "lock.acquire" or "BZPOPMIN". The time of a blocking
// command is mostly its wait. primitive and kind are of the event: lock lost, queue died, cache hit, ratelimit denied. For
// queue started, the duration is how long the message was ready before a handler began.
//
// Histograms are native ones, for servers that scrape them, with classic buckets beside.
//
// # Labels are bounded
//
// name is the name of a queue or a cache. For a decision of a limit it is the policy: "api" of the limit
// api:192.0.2.7, as the packages for HTTP and gRPC name limits. It is empty for locks and other limits, which
// often have a name for each user. Options.Name changes that. Names after the first [MaxNames] of a primitive, and operations after the
// first [MaxOperations], are counted as "other".
package promobserve
