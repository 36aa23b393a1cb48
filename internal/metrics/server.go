package metrics

import (
	"maps"
	"slices"
	"strings"

	"github.com/redoubt-go/redoubt/internal/command"
	"github.com/redoubt-go/redoubt/internal/dashboard"
	"github.com/redoubt-go/redoubt/internal/server"
)

var (
	extensionMetric = Describe("extension_commands_total", "Redoubt's own commands by name.", "command")
	protocolMetric  = Describe("protocol_errors_total", "Clients that broke the protocol.")
	authMetric      = Describe("auth_failures_total", "Wrong passwords.")
	panicsMetric    = Describe("panics_total", "Panics in handlers; each is a bug.")

	durationMetric = Describe("command_duration_seconds", "Time from reading a command to having its reply ready, by family: redis, or the group of Redoubt's own commands. Commands that wait for others are left out.", "family")
	waitMetric     = Describe("command_wait_duration_seconds", "How long commands waited for others, with or without success: locks and semaphores, messages, limits.", "family")
	waitingMetric  = Describe("clients_waiting", "Clients that wait for others now.", "family")

	acquiredMetric = Describe("lock_acquired_total", "Leases acquired by LOCK.ACQUIRE and SEM.ACQUIRE.", "kind")
	notFreeMetric  = Describe("lock_refused_total", "Leases not acquired, because none was free, or none in the time of BLOCK.", "kind")
	releasedMetric = Describe("lock_released_total", "Leases released by their holder.", "kind")
	handOverMetric = Describe("lock_hand_over_seconds", "Time from the wake-up by a release to the lease of the waiter that it woke.", "kind")
	lostMetric     = Describe("lock_lost_total", "Leases that were over before their EXTEND or RELEASE.", "kind")

	decisionsMetric = Describe("limit_decisions_total", "Decisions of rate limits by command: allowed or denied.", "command", "decision")
	policiesMetric  = Describe("limit_policy_decisions_total", "Decisions of rate limits by policy, which is a limit's name up to its first colon: allowed or denied.", "policy", "decision")

	putMetric      = Describe("queue_put_total", "Messages put by QUEUE.PUT, without those that were there already.", "queue")
	takenMetric    = Describe("queue_taken_total", "Messages taken by QUEUE.TAKE.", "queue")
	retriedMetric  = Describe("queue_retried_total", "Messages taken after a failure before.", "queue")
	settledMetric  = Describe("queue_settled_total", "Messages settled: acked; failed, to be retried, or dead after the last attempt; killed by DEAD; returned by SNOOZE; lost, because the lease was over.", "queue", "how")
	latenessMetric = Describe("queue_lateness_seconds", "How long messages were ready before they were taken.", "queue")
)

// Server sends what a server has counted.
func (s Set) Server(srv *server.Server, st *server.Stats) {
	s.Count(protocolMetric, st.ProtocolErrors)
	s.Count(authMetric, st.AuthFailures)
	s.Count(panicsMetric, st.Panics)
	for name, n := range st.Extension {
		s.Count(extensionMetric, n, strings.ToLower(name))
	}
	for i := range st.Families {
		f := &st.Families[i]
		if srv.Client() == nil && f.Name != server.FamilyRedis {
			continue // the pool refuses these commands
		}
		s.Histogram(durationMetric, &f.Latency, f.Name)
		if f.Name != server.FamilyRedis {
			s.Gauge(waitingMetric, float64(f.Waiting), f.Name)
		}
		if f.Waits.Count() > 0 {
			s.Histogram(waitMetric, &f.Waits, f.Name)
		}
	}
	if srv.Client() == nil {
		return
	}
	c := srv.CommandCounts()
	s.locks("lock", &c.Locks)
	s.locks("semaphore", &c.Semaphores)
	for _, name := range slices.Sorted(maps.Keys(c.Limits)) {
		s.Count(decisionsMetric, c.Limits[name].Allowed, strings.ToLower(name), "allowed")
		s.Count(decisionsMetric, c.Limits[name].Denied, strings.ToLower(name), "denied")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		if label, ok := s.label("policies", name); ok {
			s.Count(policiesMetric, c.Policies[name].Allowed, label, "allowed")
			s.Count(policiesMetric, c.Policies[name].Denied, label, "denied")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		label, ok := s.label("queue counts", name)
		if !ok {
			continue
		}
		q := c.Queues[name]
		s.Count(putMetric, q.Put, label)
		s.Count(takenMetric, q.Taken, label)
		s.Count(retriedMetric, q.Retried, label)
		for _, of := range []struct {
			how string
			n   uint64
		}{{"acked", q.Acked}, {"failed", q.Failed}, {"killed", q.Killed}, {"returned", q.Returned}, {"lost", q.Lost}} {
			s.Count(settledMetric, of.n, label, of.how)
		}
		s.Histogram(latenessMetric, &q.Lateness, label)
	}
}

func (s Set) locks(kind string, c *command.LockCounts) {
	s.Count(acquiredMetric, c.Acquired, kind)
	s.Count(notFreeMetric, c.Refused, kind)
	s.Count(releasedMetric, c.Released, kind)
	s.Count(lostMetric, c.Lost, kind)
	s.Histogram(handOverMetric, &c.HandOver, kind)
}

var (
	namesMetric       = Describe("names", "Names that a scan of the keys has found, by kind.", "kind")
	scannedMetric     = Describe("names_scanned", "1 once a whole scan of the keys has ended.")
	messagesMetric    = Describe("queue_messages", "Messages by state: ready; due later; running, on a lease; waiting behind others of their group; blocked until others are done; dead.", "queue", "state")
	oldestMetric      = Describe("queue_oldest_seconds", "Age of the oldest ready message.", "queue")
	pausedMetric      = Describe("queue_paused", "1 while the queue is paused.", "queue")
	consumersMetric   = Describe("queue_consumers", "Clients of this process that wait for messages.", "queue")
	stockMetric       = Describe("stock_units", "Units by state: available, reserved, sold.", "item", "state")
	cacheMetric       = Describe("cache_entries", "Entries that a scan of the keys has found.", "cache")
	locksHeldMetric   = Describe("locks_held", "Leases held now, by all clients of the back end.", "kind")
	lockWaitersMetric = Describe("locks_waiting", "Waiters now, of all clients of the back end: one process counts once for each name.", "kind")
)

// Names sends the state of names.
func (s Set) Names(st dashboard.State) {
	if st.At.IsZero() {
		return // nothing is known
	}
	s.Gauge(scannedMetric, oneIf(st.Scanned))
	for _, kind := range slices.Sorted(maps.Keys(st.Names)) {
		s.Gauge(namesMetric, float64(st.Names[kind]), kind)
	}
	for _, q := range st.Queues {
		label, ok := s.label("queue", q.Name)
		if !ok {
			continue
		}
		for _, of := range []struct {
			state string
			n     int
		}{{"ready", q.Ready}, {"due", q.Due}, {"running", q.Running}, {"waiting", q.Waiting}, {"blocked", q.Blocked}, {"dead", q.Dead}} {
			s.Gauge(messagesMetric, float64(of.n), label, of.state)
		}
		s.Gauge(oldestMetric, q.Oldest.Seconds(), label)
		s.Gauge(pausedMetric, oneIf(q.Paused), label)
		s.Gauge(consumersMetric, float64(q.Takers), label)
	}
	for _, i := range st.Stock {
		if label, ok := s.label("stock", i.Name); ok {
			s.Gauge(stockMetric, float64(i.Available), label, "available")
			s.Gauge(stockMetric, float64(i.Reserved), label, "reserved")
			s.Gauge(stockMetric, float64(i.Sold), label, "sold")
		}
	}
	for _, c := range st.Caches {
		if label, ok := s.label("cache", c.Name); ok {
			s.Gauge(cacheMetric, float64(c.Entries), label)
		}
	}
	s.Gauge(locksHeldMetric, float64(st.Locks.Held), "lock")
	s.Gauge(lockWaitersMetric, float64(st.Locks.Waiting), "lock")
	s.Gauge(locksHeldMetric, float64(st.Semaphores.Held), "semaphore")
	s.Gauge(lockWaitersMetric, float64(st.Semaphores.Waiting), "semaphore")
}
