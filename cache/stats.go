package cache

import "sync/atomic"

// Stats are counts since a Cache was made, of this process.
type Stats struct {
	// LocalHits were answered by the local level, Hits by the server with a fresh
	// value, Negatives with a fresh negative entry. Stale were answered with what
	// is not fresh any more.
	LocalHits, Hits, Negatives, Stale int64
	// Refused were answered by the filter.
	Refused int64
	// Waits were answered by a load that another had begun.
	Waits int64
	// Loads asked the source, for one key or a batch; LoadErrors are those that
	// failed. Drops were loaded and not stored.
	Loads, LoadErrors, Drops int64
	// Troubles are calls of the server that failed.
	Troubles int64
	// LocalEntries are in the local level now.
	LocalEntries int64
}

// counters are those of a Cache. Local hits are counted in many places, each with a
// cache line of its own, or the count would cost more than the hit.
type counters struct {
	hits, negatives, stale, refused, waits, loads, loadErrors, drops, troubles atomic.Int64
	local                                                                      [localCounters]struct {
		atomic.Int64
		_ [56]byte
	}
}

const localCounters = 32

// Stats returns what was counted.
func (c *Cache[K, V]) Stats() Stats {
	n := &c.counters
	s := Stats{
		Hits: n.hits.Load(), Negatives: n.negatives.Load(), Stale: n.stale.Load(), Refused: n.refused.Load(),
		Waits: n.waits.Load(), Loads: n.loads.Load(), LoadErrors: n.loadErrors.Load(), Drops: n.drops.Load(),
		Troubles: n.troubles.Load(),
	}
	for i := range n.local {
		s.LocalHits += n.local[i].Load()
	}
	if c.local != nil {
		s.LocalEntries = int64(c.local.entries.EstimatedSize())
	}
	return s
}
