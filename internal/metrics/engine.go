package metrics

import (
	"time"

	"github.com/redoubt-go/redoubt/internal/engine"
	"github.com/redoubt-go/redoubt/internal/proxy/budget"
	"github.com/redoubt-go/redoubt/internal/proxy/latency"
)

var (
	memoryMetric      = Describe("engine_memory_bytes", "Memory of the keys and values.")
	peakMetric        = Describe("engine_memory_peak_bytes", "The most memory that keys and values have taken.")
	limitMetric       = Describe("engine_memory_limit_bytes", "maxmemory; 0: no limit.")
	keysMetric        = Describe("engine_keys", "Keys.")
	expiringMetric    = Describe("engine_keys_expiring", "Keys with a time to live.")
	hitsMetric        = Describe("engine_keyspace_hits_total", "Reads of keys that were there.")
	missesMetric      = Describe("engine_keyspace_misses_total", "Reads of keys that were not there.")
	expiredMetric     = Describe("engine_expired_keys_total", "Keys that ended with their time to live.")
	evictedMetric     = Describe("engine_evicted_keys_total", "Keys evicted because of maxmemory.")
	logMetric         = Describe("engine_log_bytes", "Size of the log on disk.")
	baseMetric        = Describe("engine_log_base_bytes", "Size of the part of the log that the last compaction made.")
	logFailedMetric   = Describe("engine_log_failed", "1 while changes can't be saved, so that writes are refused.")
	syncedMetric      = Describe("engine_log_synced_timestamp_seconds", "When the log was synced last.")
	fsyncMetric       = Describe("engine_fsync_duration_seconds", "Time of each fsync of the log.")
	compactionsMetric = Describe("engine_compactions_total", "Compactions of the log that succeeded.")
	compactingMetric  = Describe("engine_compacting", "1 while the log is compacted.")
	uncompactedMetric = Describe("engine_compaction_failed", "1 if the last compaction failed.")
)

// Engine sends the state of an engine, and the times of its fsyncs.
func (s Set) Engine(st engine.Stats, fsyncs *latency.Shared) {
	s.Gauge(memoryMetric, float64(st.Memory))
	s.Gauge(peakMetric, float64(st.MemoryPeak))
	s.Gauge(limitMetric, float64(st.MemoryLimit))
	s.Gauge(keysMetric, float64(st.Keys))
	s.Gauge(expiringMetric, float64(st.Expiring))
	s.Count(hitsMetric, uint64(st.Hits))       //nolint:gosec // a count
	s.Count(missesMetric, uint64(st.Misses))   //nolint:gosec // a count
	s.Count(expiredMetric, uint64(st.Expired)) //nolint:gosec // a count
	s.Count(evictedMetric, uint64(st.Evicted)) //nolint:gosec // a count
	l := st.Log
	if l == nil {
		return
	}
	s.Gauge(logMetric, float64(l.Bytes))
	s.Gauge(baseMetric, float64(l.BaseBytes))
	s.Gauge(logFailedMetric, oneIf(l.Err != nil))
	if !l.Synced.IsZero() {
		s.Gauge(syncedMetric, float64(l.Synced.UnixMilli())/1000)
	}
	var h latency.Histogram
	fsyncs.AddTo(&h)
	s.Histogram(fsyncMetric, &h)
	s.Count(compactionsMetric, uint64(l.Compactions)) //nolint:gosec // a count
	s.Gauge(compactingMetric, oneIf(l.Compacting))
	s.Gauge(uncompactedMetric, oneIf(l.CompactErr != nil))
}

var (
	clientMemoryMetric = Describe("clients_memory_bytes", "Memory of all clients of the process together.")
	clientLimitMetric  = Describe("clients_memory_limit_bytes", "Maximum of redoubt_clients_memory_bytes: maxmemory-clients.")
	shedMetric         = Describe("clients_shed_total", "Clients disconnected because they held the most memory.")
	certificateMetric  = Describe("certificate_expiry_timestamp_seconds", "When the certificate of the TLS listeners expires.")
)

// Clients sends the memory of all clients of the process.
func (s Set) Clients(st budget.Stats) {
	s.Gauge(clientMemoryMetric, float64(st.Used))
	s.Gauge(clientLimitMetric, float64(st.Limit))
	s.Count(shedMetric, st.Ended)
}

// Certificate sends when a certificate expires.
func (s Set) Certificate(expires time.Time) { s.Gauge(certificateMetric, float64(expires.Unix())) }
