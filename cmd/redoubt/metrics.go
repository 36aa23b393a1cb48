package main

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redoubt-go/redoubt/internal/server"
)

// A collector gives a server's counters to Prometheus. It reads them when
// they are asked for, so that serving costs nothing more.
type collector struct {
	stats func() server.Stats
}

func newCollector(stats func() server.Stats) collector { return collector{stats} }

// metric describes one number. By is the name of its label, or empty.
func metric(name, help, by string) *prometheus.Desc {
	var labels []string
	if by != "" {
		labels = []string{by}
	}
	return prometheus.NewDesc("redoubt_"+name, help, labels, nil)
}

var (
	clientsDesc   = metric("clients", "Clients connected now.", "")
	acceptedDesc  = metric("clients_accepted_total", "Connections accepted.", "")
	refusedDesc   = metric("clients_refused_total", "Connections refused at max-clients.", "")
	memoryDesc    = metric("clients_memory_bytes", "What all clients of the process hold together.", "")
	mostDesc      = metric("clients_memory_limit_bytes", "The limit of that, maxmemory-clients.", "")
	shedDesc      = metric("clients_shed_total", "Clients closed because they held the most of it.", "")
	idleDesc      = metric("clients_idle_closed_total", "Clients closed by idle-timeout.", "")
	commandsDesc  = metric("commands_total", "Commands, by the way they took: passed to the back end, rewritten into a script, waited, answered locally.", "way")
	extensionDesc = metric("extension_commands_total", "Redoubt's own commands, by name.", "command")
	bytesInDesc   = metric("received_bytes_total", "Bytes received from clients.", "")
	bytesOutDesc  = metric("sent_bytes_total", "Bytes sent to clients.", "")
	protocolDesc  = metric("protocol_errors_total", "Clients that broke the protocol.", "")
	authDesc      = metric("auth_failures_total", "Wrong passwords.", "")
	backendDesc   = metric("backend_errors_total", "Commands answered with an error for lack of a connection to the back end.", "")
	panicsDesc    = metric("panics_total", "Panics in handlers; each is a bug.", "")
	dedicatedDesc = metric("backend_dedicated_connections", "Connections to the back end that belong to one client, open now.", "")
	upDesc        = metric("backend_up", "1 while the shared connection to the back end stands.", "protocol")
	connectsDesc  = metric("backend_connects_total", "Shared connections made to the back end.", "protocol")
	lossesDesc    = metric("backend_losses_total", "Shared connections to the back end that were lost.", "protocol")
	waitingDesc   = metric("backend_waiting", "Messages that wait for the back end's replies on the shared connection.", "protocol")
	pendingDesc   = metric("backend_pending_bytes", "Bytes that wait to be sent on the shared connection.", "protocol")
	apartDesc     = metric("backend_apart", "Large commands that have a connection to the back end for themselves; at most 64.", "protocol")
	turnsDesc     = metric("backend_apart_waiting", "Large commands that wait for their turn to have such a connection.", "protocol")
)

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	st := c.stats()
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
	gauge(memoryDesc, int(st.Memory.Used))
	gauge(mostDesc, int(st.Memory.Limit))
	count(shedDesc, st.Memory.Ended)
	for kind, n := range st.Commands {
		count(commandsDesc, n, server.Kind(kind).String())
	}
	for name, n := range st.Extension {
		count(extensionDesc, n, strings.ToLower(name))
	}
	count(bytesInDesc, st.BytesIn)
	count(bytesOutDesc, st.BytesOut)
	count(protocolDesc, st.ProtocolErrors)
	count(authDesc, st.AuthFailures)
	count(backendDesc, st.BackendErrors)
	count(panicsDesc, st.Panics)
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
		gauge(apartDesc, up.Isolated, protocol)
		gauge(turnsDesc, up.IsolatedWaiting, protocol)
	}
}
