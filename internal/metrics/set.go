package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/redoubt-go/redoubt/internal/proxy/latency"
)

// A Metric describes one metric, with and without the label pool.
type Metric struct{ alone, pooled *prometheus.Desc }

// Describe returns the description of a metric. name lacks the prefix redoubt_.
func Describe(name, help string, labels ...string) *Metric {
	name = "redoubt_" + name
	return &Metric{
		prometheus.NewDesc(name, help, labels, nil),
		prometheus.NewDesc(name, help, append([]string{"pool"}, labels...), nil),
	}
}

// A Set sends the metrics of one server to a scrape.
type Set struct {
	out  chan<- prometheus.Metric
	pool string
	seen map[string]bool
}

// For returns a Set for a pool; empty: the server is not one of several.
func For(out chan<- prometheus.Metric, pool string) Set { return Set{out, pool, map[string]bool{}} }

func (s Set) of(m *Metric, labels []string) (*prometheus.Desc, []string) {
	if s.pool == "" {
		return m.alone, labels
	}
	return m.pooled, append([]string{s.pool}, labels...)
}

// Count sends a counter.
func (s Set) Count(m *Metric, n uint64, labels ...string) {
	d, values := s.of(m, labels)
	s.out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), values...)
}

// Gauge sends a gauge.
func (s Set) Gauge(m *Metric, v float64, labels ...string) {
	d, values := s.of(m, labels)
	s.out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, values...)
}

// Histogram sends a histogram.
func (s Set) Histogram(m *Metric, h *latency.Histogram, labels ...string) {
	d, values := s.of(m, labels)
	s.out <- NewHistogram(d, h, values...)
}

// label makes a label of the name of a thing of one kind. ok is false if another name has the same label: Prometheus
// takes no bytes that are not UTF-8, and no series twice.
func (s Set) label(kind, name string) (label string, ok bool) {
	label = strings.ToValidUTF8(name, "�")
	key := kind + "\x00" + label
	ok = !s.seen[key]
	s.seen[key] = true
	return label, ok
}

func oneIf(yes bool) float64 { //nolint:revive // the parameter is the value
	if yes {
		return 1
	}
	return 0
}

// A histogram is native, as one of client_golang with a bucket factor of 1.1 and at most 256 buckets, and has
// classic buckets beside: scrapes in the text format see these.
type histogram struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	h      latency.Histogram
}

// NewHistogram returns a metric with what h has counted so far.
func NewHistogram(d *prometheus.Desc, h *latency.Histogram, labels ...string) prometheus.Metric {
	return &histogram{d, prometheus.MakeLabelPairs(d, labels), *h}
}

// Desc implements prometheus.Metric.
func (m *histogram) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric.
func (m *histogram) Write(to *dto.Metric) error {
	sum, schema, threshold := m.h.Sum.Seconds(), int32(latency.Schema), latency.Shortest
	// Durations may be counted while this one is read. Prometheus wants buckets that add up to the count.
	count := m.h.Zero
	for _, n := range m.h.Fine {
		count += n
	}
	to.Label = m.labels
	to.Histogram = &dto.Histogram{SampleCount: &count, SampleSum: &sum, Schema: &schema, ZeroThreshold: &threshold, ZeroCount: &m.h.Zero}
	upTo := uint64(0)
	for i, b := range latency.Bounds {
		upTo += m.h.Counts[i]
		most, bound := min(upTo, count), b.Seconds()
		to.Histogram.Bucket = append(to.Histogram.Bucket, &dto.Bucket{CumulativeCount: &most, UpperBound: &bound})
	}
	m.spans(to.Histogram)
	return nil
}

// spans writes the fine buckets: runs of buckets, each with its distance from the run before, and the differences
// of their counts.
func (m *histogram) spans(to *dto.Histogram) {
	next, before := int32(0), int64(0)
	var run *dto.BucketSpan
	for i, n := range m.h.Fine {
		if n == 0 {
			run = nil
			continue
		}
		index := int32(latency.FirstFine + i) //nolint:gosec // few
		if run == nil {
			offset, length := index-next, uint32(0)
			run = &dto.BucketSpan{Offset: &offset, Length: &length}
			to.PositiveSpan = append(to.PositiveSpan, run)
		}
		*run.Length++
		next = index + 1
		to.PositiveDelta = append(to.PositiveDelta, int64(n)-before) //nolint:gosec // a number of commands
		before = int64(n)                                            //nolint:gosec // as above
	}
	if len(to.PositiveSpan) == 0 { // without one, a histogram without durations would be a classic one
		to.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32), Length: new(uint32)}}
	}
}
