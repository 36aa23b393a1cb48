package promobserve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redoubt-go/redoubt"
)

const (
	// MaxNames is how many values the label name has for each primitive, beside "other".
	MaxNames = 100
	// MaxOperations is how many values the label operation has, beside "other".
	MaxOperations = 300
)

// other is the label of everything over a maximum.
const other = "other"

// Options configure a [Collector]. The zero value is ready to use.
type Options struct {
	// CallBuckets are the upper bounds of the classic buckets of calls, in seconds, ascending. Defaults to
	// bounds from 0.1 ms to 10 s.
	CallBuckets []float64
	// EventBuckets are the same for waits, handlers and loads. Defaults to bounds from 1 ms to an hour.
	EventBuckets []float64
	// Name returns the label name of an event. Return few different names. Defaults to the names of queues and
	// caches, and for a decision of a limit the policy, which is its name up to a colon; empty for all others.
	Name func(e redoubt.Event) string
}

// A Collector is a prometheus.Collector of what its Observer sees. All methods may be called by many
// goroutines at once.
type Collector struct {
	name func(e redoubt.Event) string

	inFlight   prometheus.Gauge
	calls      *prometheus.HistogramVec
	errors     *prometheus.CounterVec
	events     *prometheus.CounterVec
	took       *prometheus.HistogramVec
	operations bounded
	names      sync.Map // primitive → *bounded
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector. It reports all faults of opts.
func New(opts Options) (*Collector, error) {
	if opts.CallBuckets == nil {
		opts.CallBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	}
	if opts.EventBuckets == nil {
		opts.EventBuckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600}
	}
	if opts.Name == nil {
		opts.Name = nameOf
	}
	if err := errors.Join(checkBuckets("CallBuckets", opts.CallBuckets), checkBuckets("EventBuckets", opts.EventBuckets)); err != nil {
		return nil, err
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "redoubt_client_" + name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
		}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "redoubt_client_" + name, Help: help}, labels)
	}
	return &Collector{
		name:       opts.Name,
		inFlight:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "redoubt_client_calls_in_flight", Help: "Calls that have begun and not ended."}),
		calls:      histogram("call_duration_seconds", "Time of commands and pipelines, by script or command.", opts.CallBuckets, "operation"),
		errors:     counter("call_errors_total", "Commands and pipelines that ended with an error.", "operation", "reason"),
		events:     counter("events_total", "Events of the primitives, such as lost leases and dead messages.", "primitive", "kind", "name"),
		took:       histogram("event_duration_seconds", "Time of waits, handlers and loads; of started, how long the message was ready before.", opts.EventBuckets, "primitive", "kind", "name"),
		operations: bounded{most: MaxOperations},
	}, nil
}

func checkBuckets(option string, buckets []float64) error {
	for i, b := range buckets {
		if math.IsNaN(b) || i > 0 && b <= buckets[i-1] {
			return fmt.Errorf("promobserve: %s has %v at place %d; want ascending numbers of seconds", option, b, i)
		}
	}
	return nil
}

// nameOf returns the name of a queue, a cache or a policy: a program has few.
func nameOf(e redoubt.Event) string {
	switch {
	case e.Primitive == "queue", e.Primitive == "cache":
		return e.Name
	case e.Kind == redoubt.EventAllowed, e.Kind == redoubt.EventDenied:
		if policy, _, ok := strings.Cut(e.Name, ":"); ok {
			return policy
		}
	}
	return ""
}

// Observer returns the Observer for the options of clients. Several observers are combined by
// redoubt.JoinObservers.
func (c *Collector) Observer() redoubt.Observer {
	return redoubt.Observer{OnCall: c.onCall, OnEvent: c.onEvent}
}

func (c *Collector) onCall(ctx context.Context, call redoubt.Call) (context.Context, func(error)) {
	began := time.Now()
	c.inFlight.Inc()
	return ctx, func(err error) {
		c.inFlight.Dec()
		operation := c.operations.label(call.Operation)
		c.calls.WithLabelValues(operation).Observe(time.Since(began).Seconds())
		if err != nil {
			c.errors.WithLabelValues(operation, redoubt.ErrorLabel(err)).Inc()
		}
	}
}

func (c *Collector) onEvent(_ context.Context, e redoubt.Event) {
	names, ok := c.names.Load(e.Primitive)
	if !ok {
		names, _ = c.names.LoadOrStore(e.Primitive, &bounded{most: MaxNames})
	}
	kind, name := string(e.Kind), names.(*bounded).label(c.name(e))
	c.events.WithLabelValues(e.Primitive, kind, name).Inc()
	if e.Took > 0 || kind == "started" { // most messages are started at once
		c.took.WithLabelValues(e.Primitive, kind, name).Observe(e.Took.Seconds())
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics() {
		m.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c.metrics() {
		m.Collect(out)
	}
}

func (c *Collector) metrics() []prometheus.Collector {
	return []prometheus.Collector{c.inFlight, c.calls, c.errors, c.events, c.took}
}

// A bounded lets the first values of a label pass.
type bounded struct {
	most int

	mu   sync.RWMutex
	seen map[string]string // to labels, which are valid UTF-8
}

func (b *bounded) label(s string) string {
	b.mu.RLock()
	label, ok := b.seen[s]
	full := len(b.seen) >= b.most
	b.mu.RUnlock()
	switch {
	case ok:
		return label
	case s == "":
		return ""
	case full:
		return other
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.seen) >= b.most {
		return other
	}
	if b.seen == nil {
		b.seen = make(map[string]string)
	}
	b.seen[s] = strings.ToValidUTF8(s, "?")
	return b.seen[s]
}
