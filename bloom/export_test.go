package bloom

// ShardKeys returns the keys of the current generation's shards.
func (f *Filter) ShardKeys() (all []string) {
	g := f.now.Load().current
	for i := range g.shards {
		all = append(all, f.shard(g.id, i))
	}
	return all
}

// FilterKey returns the key of the filter's description.
func (f *Filter) FilterKey() string { return f.filter }

// Layout returns the blocks, shards and hashes of a filter for spec.
func Layout(spec Spec) (blocks int64, shards, hashes int) {
	l := layoutFor(spec)
	return l.blocks, l.shards, l.hashes
}

// Sync makes a sliding filter read the server's clock at its next call.
func (f *SlidingFilter) Sync() {
	s := *f.now.Load()
	s.at = s.at.Add(-2 * syncEvery)
	s.clock -= 2 * syncEvery.Microseconds()
	f.now.Store(&s)
}
