package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redoubt-go/redoubt/internal/rediscmd"
)

// A latencyMonitor is what the LATENCY commands read: commands that took latency-monitor-threshold or longer,
// by event. The events are Redis' "command" and "fast-command".
type latencyMonitor struct {
	threshold   atomic.Int64 // ms; 0: nothing is noted
	off         atomic.Bool  // latency-tracking is no
	percentiles atomic.Pointer[[]float64]

	mu     sync.Mutex
	events map[string]*latencyEvent
}

// A latencyEvent has one sample a second, the longest, and most samples.
type latencyEvent struct {
	samples []latencySample // the latest last
	most    int64
}

type latencySample struct{ time, ms int64 }

// latencySamples is how many samples of an event are kept.
const latencySamples = 160

func (m *latencyMonitor) add(cmd *command, now, ms int64) {
	event := "command"
	if cmd.Has(rediscmd.Fast) {
		event = "fast-command"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.events == nil {
		m.events = map[string]*latencyEvent{}
	}
	e := m.events[event]
	if e == nil {
		e = &latencyEvent{}
		m.events[event] = e
	}
	e.most = max(e.most, ms)
	if n := len(e.samples); n > 0 && e.samples[n-1].time == now {
		e.samples[n-1].ms = max(e.samples[n-1].ms, ms)
		return
	}
	if len(e.samples) == latencySamples {
		e.samples = append(e.samples[:0], e.samples[1:]...)
	}
	e.samples = append(e.samples, latencySample{now, ms})
}

// parsePercentiles reads latency-tracking-info-percentiles.
func parsePercentiles(s string) (list []float64, err error) {
	for f := range strings.FieldsSeq(s) {
		p, ok := parseFloat([]byte(f))
		switch {
		case !ok:
			return nil, errors.New("Invalid latency-tracking-info-percentiles parameters") //nolint:revive,staticcheck // as Redis
		case p < 0 || p > 100:
			return nil, errors.New("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
		}
		list = append(list, p)
	}
	return list, nil
}

func formatPercentiles(list []float64) string {
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = strconv.FormatFloat(p, 'g', -1, 64)
	}
	return strings.Join(words, " ")
}

// cmdLatencyHistogram answers with the bounds of Redis' histogram: powers of two of 1.032 µs, cut to whole µs.
func cmdLatencyHistogram(c *call) {
	all := c.e.commandStats.all()
	if c.e.latency.off.Load() {
		all = nil
	}
	if len(c.args) > 2 {
		var named []*commandStats
		for _, name := range c.args[2:] {
			n := strings.ToLower(string(name))
			for _, st := range all {
				if st.name == n || strings.HasPrefix(st.name, n+"|") {
					named = append(named, st)
				}
			}
		}
		all = named
	}
	all = slices.DeleteFunc(all, func(st *commandStats) bool { return st.total() == 0 || st.weight.Load() == 0 })
	c.mapHead(len(all))
	for _, st := range all {
		calls := st.total()
		c.str(st.name)
		c.mapHead(2)
		c.str("calls")
		c.int(calls)
		c.str("histogram_usec")
		steps := st.histogram(calls)
		c.mapHead(len(steps))
		for _, s := range steps {
			c.int(s.micros)
			c.int(s.calls)
		}
	}
}

// A histogramStep says how many calls took at most so long.
type histogramStep struct{ micros, calls int64 }

// histogram returns the steps at which the number of calls grows. The last one has all calls.
func (st *commandStats) histogram(calls int64) (steps []histogramStep) {
	var sums [octaves + 1]int64
	sum := int64(0)
	for i := range st.times {
		sum += st.times[i].Load()
		if i%partsPerOctave == 0 {
			sums[i/partsPerOctave] = sum
		}
	}
	before := int64(0)
	for k, n := range sums {
		scaled := calls
		if n < sum {
			scaled = min(calls, int64(float64(n)*float64(calls)/float64(sum)+0.5))
		}
		if scaled > before {
			steps = append(steps, histogramStep{(1032<<k - 1) / 1000, scaled})
			before = scaled
		}
	}
	return steps
}

func cmdLatencyLatest(c *call) {
	m := &c.e.latency
	m.mu.Lock()
	defer m.mu.Unlock()
	c.array(len(m.events))
	for _, name := range slices.Sorted(maps.Keys(m.events)) {
		e := m.events[name]
		last := e.samples[len(e.samples)-1]
		c.array(4)
		c.str(name)
		c.int(last.time)
		c.int(last.ms)
		c.int(e.most)
	}
}

func cmdLatencyHistory(c *call) {
	m := &c.e.latency
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.events[string(c.args[2])]
	if e == nil {
		c.array(0)
		return
	}
	c.array(len(e.samples))
	for _, s := range e.samples {
		c.array(2)
		c.int(s.time)
		c.int(s.ms)
	}
}

func cmdLatencyReset(c *call) {
	m := &c.e.latency
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.events)
	if len(c.args) == 2 {
		m.events = nil
	}
	for _, name := range c.args[2:] {
		delete(m.events, string(name))
	}
	c.int(int64(before - len(m.events)))
}

func cmdLatencyDoctor(c *call) {
	m := &c.e.latency
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	switch {
	case len(m.events) > 0:
		for _, name := range slices.Sorted(maps.Keys(m.events)) {
			e := m.events[name]
			sum := int64(0)
			for _, s := range e.samples {
				sum += s.ms
			}
			fmt.Fprintf(&b, "%s: %d latency spikes (average %d ms, worst %d ms). SLOWLOG GET shows the slow commands.\n",
				name, len(e.samples), sum/int64(len(e.samples)), e.most)
		}
	case m.threshold.Load() == 0:
		b.WriteString("Latency monitoring is disabled. CONFIG SET latency-monitor-threshold <milliseconds> enables it.\n")
	default:
		b.WriteString("No latency spike was observed.\n")
	}
	c.verbatim(b.String())
}

func cmdLatencyHelp(c *call) {
	c.helpLines("DOCTOR",
		"    Return a human readable latency analysis report.",
		"HISTORY <event>",
		"    Return time-latency samples for the <event> class.",
		"LATEST",
		"    Return the latest latency samples for all events.",
		"RESET [<event> ...]",
		"    Reset latency data of one or more <event> classes.",
		"    (default: reset all data for all event classes)",
		"HISTOGRAM [COMMAND ...]",
		"    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
		"    If no commands are specified then all histograms are replied.")
}
