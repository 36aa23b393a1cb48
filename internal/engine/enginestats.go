package engine

import "time"

// Stats are counters of an engine since it was opened, and its state.
type Stats struct {
	Memory, MemoryPeak, MemoryLimit int64 // bytes of the keys and values; no limit: 0
	Keys, Expiring                  int   // keys; of them with a time to live
	Commands                        int64
	Hits, Misses                    int64
	Expired, Evicted                int64     // keys
	Log                             *LogStats // nil: nothing is saved
}

// LogStats are the size and the state of the log.
type LogStats struct {
	Bytes, BaseBytes int64     // of all files; of the base, which a compaction makes
	Synced           time.Time // zero: never
	Compactions      int64
	Compacting       bool
	CompactErr, Err  error // why the last compaction failed; why nothing can be saved now
}

// Stats returns the counters now.
func (e *Engine) Stats() Stats {
	st := Stats{
		Memory: e.memory.used.Load(), MemoryPeak: e.peak(), MemoryLimit: e.memory.limit.Load(),
		Commands: e.stats.commands.Load(), Expired: e.stats.expired.Load(), Evicted: e.stats.evicted.Load(),
	}
	e.eachShard(nil, func(sh *shard) {
		st.Commands += sh.counters.commands
		st.Hits += sh.counters.hits
		st.Misses += sh.counters.misses
		for _, ks := range sh.dbs {
			if ks != nil {
				st.Keys += ks.keys.len()
				st.Expiring += ks.expiring.len()
			}
		}
	})
	if l := e.log; l != nil {
		base, logs := l.Size()
		st.Log = &LogStats{
			Bytes: base + logs, BaseBytes: base, Synced: l.Synced(), Compactions: l.Compactions(), Compacting: l.Compacting(),
			CompactErr: l.CompactErr(), Err: l.Err(),
		}
	}
	return st
}
