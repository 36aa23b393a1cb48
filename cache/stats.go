package cache

import "sync/atomic"

// Stats are counts of this process since a Cache was made.
type Stats struct {
	// LocalHits were answered by the local level, Hits by a fresh value on the server, Negatives by
	// a fresh negative entry, Stale by an entry that is no longer fresh.
	LocalHits, Hits, Negatives, Stale int64
	// Refused were answered by [Options.Filter].
	Refused int64
	// Waits were answered by the load of another caller.
	Waits int64
	// Loads are calls of the source, for one key or a batch; LoadErrors are the loads that failed.
	// Drops are loaded values that were not stored.
	Loads, LoadErrors, Drops int64
	// ServerErrors are commands that the server did not answer, or refused.
	ServerErrors int64
	// LocalEntries is the number of entries in the local level now.
	LocalEntries int64
}

// counters are the counts of a Cache. Local hits are counted in many places, each with a cache line
// of its own; otherwise the count would cost more than the hit.
type counters struct {
	hits, negatives, stale, refused, waits, loads, loadErrors, drops, serverErrors atomic.Int64
	local                                                                          [localCounters]struct {
		atomic.Int64
		_ [56]byte
	}
}

const localCounters = 32

// Stats returns the counts. It sends nothing.
func (c *Cache[K, V]) Stats() Stats {
	n := &c.counters
	s := Stats{
		Hits: n.hits.Load(), Negatives: n.negatives.Load(), Stale: n.stale.Load(), Refused: n.refused.Load(),
		Waits: n.waits.Load(), Loads: n.loads.Load(), LoadErrors: n.loadErrors.Load(), Drops: n.drops.Load(),
		ServerErrors: n.serverErrors.Load(),
	}
	for i := range n.local {
		s.LocalHits += n.local[i].Load()
	}
	if c.local != nil {
		s.LocalEntries = int64(c.local.entries.EstimatedSize())
	}
	return s
}
