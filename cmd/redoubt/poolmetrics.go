package main

import "github.com/prometheus/client_golang/prometheus"

// poolMetric describes one number of a pool, with more labels behind that of the pool.
func poolMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("redoubt_pool_"+name, help, append([]string{"pool"}, labels...), nil)
}

var (
	poolRingDesc     = poolMetric("ring_info", "Always 1; the digest is the same for pools that choose alike.", "digest")
	poolClientsDesc  = poolMetric("clients", "Clients connected now.")
	poolAcceptedDesc = poolMetric("clients_accepted_total", "Connections accepted.")
	poolRefusedDesc  = poolMetric("clients_refused_total", "Connections refused at client_connections.")
	poolCommandsDesc = poolMetric("commands_total", "Commands, by the way they took: passed to a server, answered locally.", "way")
	poolErrorsDesc   = poolMetric("backend_errors_total", "Commands answered with an error for lack of a connection to their server.")
	poolInDesc       = poolMetric("received_bytes_total", "Bytes received from clients.")
	poolOutDesc      = poolMetric("sent_bytes_total", "Bytes sent to clients.")
	nodeUpDesc       = poolMetric("server_up", "1 while the shared connection to the server stands.", "server", "protocol")
	nodeEjectedDesc  = poolMetric("server_ejected", "1 while the server is out of the ring.", "server")
	ejectionsDesc    = poolMetric("server_ejections_total", "How many times the server was taken out of the ring.", "server")
	nodeConnectsDesc = poolMetric("server_connects_total", "Shared connections made to the server.", "server", "protocol")
	nodeLossesDesc   = poolMetric("server_losses_total", "Shared connections to the server that were lost.", "server", "protocol")
	nodeWaitingDesc  = poolMetric("server_waiting", "Messages that wait for the server's replies.", "server", "protocol")
	nodeTimeoutsDesc = poolMetric("server_timeouts_total", "Commands that the server did not answer in time.", "server")
	nodePendingDesc  = poolMetric("server_pending_bytes", "Bytes that wait to be sent to the server.", "server", "protocol")
)

// Describe implements prometheus.Collector.
func (h *poolHost) Describe(out chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(h, out)
}

// Collect implements prometheus.Collector.
func (h *poolHost) Collect(out chan<- prometheus.Metric) {
	for _, p := range h.now() {
		p.front.collect(poolMetrics{p.name, out})
	}
}

// A poolMetrics takes the numbers of a pool. The labels are those behind the pool's.
type poolMetrics struct {
	pool string
	out  chan<- prometheus.Metric
}

func (m poolMetrics) count(d *prometheus.Desc, n uint64, labels ...string) {
	m.out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{m.pool}, labels...)...)
}

func (m poolMetrics) gauge(d *prometheus.Desc, n int, labels ...string) {
	m.out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), append([]string{m.pool}, labels...)...)
}

func oneIf(yes bool) int { //nolint:revive // the parameter is the value
	if yes {
		return 1
	}
	return 0
}
