package main

import (
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/metrics"
	"github.com/redoubt-go/redoubt/internal/server"
)

// A collector exports a server's counters to Prometheus, and the state of its back end. It reads them at each
// scrape, so that serving costs nothing more.
type collector struct {
	srv      *server.Server
	back     *backend
	frontend *frontend
	watcher  *dashboard.Watcher // nil: names are not read
	reading  chan struct{}      // of capacity 1: holds a value while the engine is read
}

// metric describes one metric. by is the name of its label, or empty.
func metric(name, help, by string) *prometheus.Desc {
	var labels []string
	if by != "" {
		labels = []string{by}
	}
	return prometheus.NewDesc("redoubt_"+name, help, labels, nil)
}

var (
	clientsDesc         = metric("clients", "Connected clients.", "")
	acceptedDesc        = metric("clients_accepted_total", "Connections accepted.", "")
	refusedDesc         = metric("clients_refused_total", "Connections refused at max-clients.", "")
	idleDesc            = metric("clients_idle_closed_total", "Clients disconnected by idle-timeout.", "")
	commandsDesc        = metric("commands_total", "Commands by how they were served: passed to the back end, rewritten into a script, waited, answered locally.", "way")
	bytesInDesc         = metric("received_bytes_total", "Bytes received from clients.", "")
	bytesOutDesc        = metric("sent_bytes_total", "Bytes sent to clients.", "")
	backendDesc         = metric("backend_errors_total", "Commands answered with an error because there was no connection to the back end.", "")
	dedicatedDesc       = metric("backend_dedicated_connections", "Open connections to the back end that serve a single client.", "")
	upDesc              = metric("backend_up", "1 while the shared connection to the back end is up.", "protocol")
	connectsDesc        = metric("backend_connects_total", "Shared connections made to the back end.", "protocol")
	lossesDesc          = metric("backend_losses_total", "Shared connections to the back end that were lost.", "protocol")
	waitingDesc         = metric("backend_waiting", "Requests on the shared connection that wait for a reply.", "protocol")
	pendingDesc         = metric("backend_pending_bytes", "Bytes waiting to be sent on the shared connection.", "protocol")
	isolatedDesc        = metric("backend_isolated", "Large commands that use a connection of their own; at most 64.", "protocol")
	isolatedWaitingDesc = metric("backend_isolated_waiting", "Large commands waiting for a connection of their own.", "protocol")
)

// Describe implements prometheus.Collector. It describes nothing: that would take a reading of the back end.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	st := c.srv.Stats()
	count := func(d *prometheus.Desc, n uint64, label ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), label...)
	}
	gauge := func(d *prometheus.Desc, n int, label ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), label...)
	}
	gauge(clientsDesc, st.Clients)
	count(acceptedDesc, st.Accepted)
	count(refusedDesc, st.Refused)
	count(idleDesc, st.IdleClosed)
	for kind, n := range st.Commands {
		count(commandsDesc, n, server.Kind(kind).String())
	}
	count(bytesInDesc, st.BytesIn)
	count(bytesOutDesc, st.BytesOut)
	count(backendDesc, st.BackendErrors)
	gauge(dedicatedDesc, st.Dedicated)
	for _, up := range st.Upstreams {
		protocol := "resp" + strconv.Itoa(int(up.Protocol))
		on := 0
		if up.Up {
			on = 1
		}
		gauge(upDesc, on, protocol)
		count(connectsDesc, up.Connects, protocol)
		count(lossesDesc, up.Losses, protocol)
		gauge(waitingDesc, up.Waiting, protocol)
		gauge(pendingDesc, up.Pending, protocol)
		gauge(isolatedDesc, up.Isolated, protocol)
		gauge(isolatedWaitingDesc, up.IsolatedWaiting, protocol)
	}
	set := metrics.For(out, "")
	set.Clients(st.Memory)
	set.Server(c.srv, &st)
	if c.watcher != nil {
		set.Names(c.watcher.Read())
	}
	if c.back.engine != nil {
		if st, ok := c.engineStats(); ok {
			set.Engine(st, c.back.fsyncs)
		}
	}
	if c.frontend.source != nil {
		set.Certificate(c.frontend.source.Expires())
	}
}

// enginePatience is how long a scrape waits for the engine.
const enginePatience = time.Second

// engineStats reads the engine. ok is false while a command holds keys for long, an endless script for example: then
// the scrape lacks the metrics of the engine and has all others.
func (c collector) engineStats() (st engine.Stats, ok bool) {
	late := time.NewTimer(enginePatience)
	defer late.Stop()
	select {
	case c.reading <- struct{}{}:
	case <-late.C:
		return st, false
	}
	answer := make(chan engine.Stats, 1)
	go func() {
		answer <- c.back.engine.Stats()
		<-c.reading
	}()
	select {
	case st = <-answer:
		return st, true
	case <-late.C:
		return st, false
	}
}

// newBuildInfo returns a metric that says what this binary is.
func newBuildInfo() prometheus.Collector {
	b := readBuild(debug.ReadBuildInfo())
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "redoubt_build_info", Help: "Always 1; the labels say what this binary is.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.GoVersion},
	})
	info.Set(1)
	return info
}
