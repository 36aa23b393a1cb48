package poolhost

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/redoubt-go/redoubt/internal/metrics"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
)

// poolMetric describes one metric of a pool. labels come after the label of the pool.
func poolMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("redoubt_pool_"+name, help, append([]string{"pool"}, labels...), nil)
}

var (
	poolRingDesc            = poolMetric("ring_info", "Always 1; digest is equal for pools that map keys to servers alike.", "digest")
	poolClientsDesc         = poolMetric("clients", "Connected clients.")
	poolAcceptedDesc        = poolMetric("clients_accepted_total", "Connections accepted.")
	poolRefusedDesc         = poolMetric("clients_refused_total", "Connections refused at client_connections.")
	poolCommandsDesc        = poolMetric("commands_total", "Commands by how they were served: passed to a server, answered locally.", "way")
	poolErrorsDesc          = poolMetric("backend_errors_total", "Commands answered with an error because there was no connection to their server.")
	poolInDesc              = poolMetric("received_bytes_total", "Bytes received from clients.")
	poolOutDesc             = poolMetric("sent_bytes_total", "Bytes sent to clients.")
	poolEndedDesc           = poolMetric("clients_ended_total", "Closed clients: by the client or QUIT (eof), or in another way (error).", "how")
	poolPartsDesc           = poolMetric("fragments_total", "Parts of commands that were split across servers.")
	poolSlowDesc            = poolMetric("slow_commands_total", "Commands that took a Redis server longer than slowlog-slower-than; INFO slowlog has the latest.")
	poolHottestDesc         = poolMetric("hottest_key_per_second", "Requests per second for the most requested key; INFO hotkeys has its name.")
	poolLatencyDesc         = poolMetric("latency_seconds", "Time from reading a command to having its reply ready.")
	nodeLatencyDesc         = poolMetric("server_latency_seconds", "Time from sending a command to the server to reading its reply.", "server")
	nodeUpDesc              = poolMetric("server_up", "1 while the shared connection to the server is up.", "server", "protocol")
	nodeEjectedDesc         = poolMetric("server_ejected", "1 while the server is out of the ring.", "server")
	ejectionsDesc           = poolMetric("server_ejections_total", "Times the server was ejected from the ring.", "server")
	nodeConnectsDesc        = poolMetric("server_connects_total", "Shared connections made to the server.", "server", "protocol")
	nodeLossesDesc          = poolMetric("server_losses_total", "Shared connections to the server that were lost.", "server", "protocol")
	nodeWaitingDesc         = poolMetric("server_waiting", "Requests that wait for a reply of the server.", "server", "protocol")
	nodeTimeoutsDesc        = poolMetric("server_timeouts_total", "Commands that the server did not answer in time.", "server")
	nodeFailuresDesc        = poolMetric("server_connect_failures_total", "Shared connections to the server that could not be made.", "server", "protocol")
	nodeEOFsDesc            = poolMetric("server_eofs_total", "Shared connections that the server closed; also counted as losses.", "server", "protocol")
	nodeLostDesc            = poolMetric("server_lost_total", "Commands answered with an error because the connection was lost before the reply.", "server")
	nodeRequestsDesc        = poolMetric("server_requests_total", "Commands sent to the server.", "server", "protocol")
	nodeReqBytesDesc        = poolMetric("server_request_bytes_total", "Bytes sent to the server.", "server", "protocol")
	nodeRepliesDesc         = poolMetric("server_responses_total", "Replies of the server, late ones too.", "server", "protocol")
	nodeRepBytesDesc        = poolMetric("server_response_bytes_total", "Bytes of the server's replies.", "server", "protocol")
	nodeQueuedDesc          = poolMetric("server_queued", "Commands waiting to be sent to the server.", "server", "protocol")
	nodeFlightDesc          = poolMetric("server_in_flight", "Commands sent to the server and not answered yet.", "server", "protocol")
	nodePendingDesc         = poolMetric("server_pending_bytes", "Bytes waiting to be sent to the server.", "server", "protocol")
	nodeIsolatedDesc        = poolMetric("server_isolated", "Large commands that use a connection of their own; at most 64.", "server", "protocol")
	nodeIsolatedWaitingDesc = poolMetric("server_isolated_waiting", "Large commands waiting for a connection of their own.", "server", "protocol")
)

// Describe implements prometheus.Collector. It describes nothing: the pools may change, and that would take a
// reading of the servers.
func (h *Host) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (h *Host) Collect(out chan<- prometheus.Metric) {
	metrics.For(out, "").Clients(h.opts.Budget.Stats())
	for _, p := range h.current() {
		poolMetrics{p.name, out}.collect(p.front.counters())
		set := metrics.For(out, p.name)
		if p.tls != nil {
			set.Certificate(p.tls.Expires())
		}
		if r, ok := p.front.(*redisPool); ok {
			st := r.Stats()
			set.Server(r.Server, &st)
			if r.watcher != nil {
				set.Names(r.watcher.Read())
			}
		}
	}
}

func (m poolMetrics) collect(c poolCounters) {
	m.gauge(poolRingDesc, 1, c.digest)
	m.gauge(poolClientsDesc, c.clients)
	m.count(poolAcceptedDesc, c.accepted)
	m.count(poolRefusedDesc, c.refused)
	m.count(poolEndedDesc, c.eofs, "eof")
	m.count(poolEndedDesc, c.faults, "error")
	m.count(poolCommandsDesc, c.passed, "passed")
	m.count(poolCommandsDesc, c.local, "local")
	m.count(poolPartsDesc, c.fragments)
	m.histogram(poolLatencyDesc, &c.latency)
	m.count(poolErrorsDesc, c.errors)
	m.count(poolSlowDesc, c.slow)
	hottest := 0.0
	for _, k := range c.hottest {
		hottest = k.PerSecond
	}
	m.out <- prometheus.MustNewConstMetric(poolHottestDesc, prometheus.GaugeValue, hottest, m.pool)
	m.count(poolInDesc, c.bytesIn)
	m.count(poolOutDesc, c.bytesOut)
	for _, s := range c.servers {
		if !s.replica {
			m.gauge(nodeEjectedDesc, oneIf(s.ejected), s.name)
			m.count(ejectionsDesc, s.ejections, s.name)
		}
		sum, _ := s.total()
		m.histogram(nodeLatencyDesc, &sum.Latency, s.name)
		m.count(nodeTimeoutsDesc, sum.TimedOut, s.name)
		m.count(nodeLostDesc, sum.Lost, s.name)
		for _, st := range s.shared {
			m.collectShared(st, s.name, st.protocol)
		}
	}
}

func (m poolMetrics) collectShared(st sharedCounters, labels ...string) {
	m.gauge(nodeUpDesc, oneIf(st.Up), labels...)
	m.count(nodeConnectsDesc, st.Connects, labels...)
	m.count(nodeFailuresDesc, st.Failures, labels...)
	m.count(nodeLossesDesc, st.Losses, labels...)
	m.count(nodeEOFsDesc, st.EOFs, labels...)
	m.gauge(nodeWaitingDesc, st.Waiting, labels...)
	m.gauge(nodeQueuedDesc, st.Queued, labels...)
	m.gauge(nodePendingDesc, st.Pending, labels...)
	m.gauge(nodeFlightDesc, st.InFlight, labels...)
	m.gauge(nodeIsolatedDesc, st.Isolated, labels...)
	m.gauge(nodeIsolatedWaitingDesc, st.IsolatedWaiting, labels...)
	m.count(nodeRequestsDesc, st.Requests, labels...)
	m.count(nodeReqBytesDesc, st.RequestBytes, labels...)
	m.count(nodeRepliesDesc, st.Responses, labels...)
	m.count(nodeRepBytesDesc, st.ResponseBytes, labels...)
}

// poolMetrics sends the metrics of one pool to out. labels come after the label of the pool.
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

func (m poolMetrics) histogram(d *prometheus.Desc, h *latency.Histogram, labels ...string) {
	m.out <- metrics.NewHistogram(d, h, append([]string{m.pool}, labels...)...)
}

func oneIf(yes bool) int { //nolint:revive // the parameter is the value
	if yes {
		return 1
	}
	return 0
}
