package engine

// prefetched is how many keys are prefetched at once. The processor waits for about as many loads at a time.
const prefetched = 16

// Prefetch brings what the session's next commands need into the processor's cache: their keys, and fields or members
// of large hashes and sets. It waits for the memory of many at once, where the commands would wait for each in turn.
// A key that isn't there, or that moves meanwhile, costs only time. Valkey 8 does the same with the keys of several clients.
//
// For keys it takes no lock and reads nothing that changes. If several commands in a row use the same key, it tries to
// lock the key's shard. It reports false if there was nothing to load: the commands use one key, which isn't a large hash
// or set.
func (s *Session) Prefetch(keys, members [][]byte) (useful bool) {
	for from := 0; from < len(keys); {
		first, to := from, min(from+prefetched, len(keys))
		for from < to {
			end := from + 1
			for end < to && string(keys[end]) == string(keys[from]) {
				end++
			}
			if from == first && end < to {
				s.prefetch(s.db, keys[from:to])
				useful = true
			}
			if end-from > 3 && len(members[from]) > 0 && s.prefetchMembers(keys[from], members[from:end]) {
				useful = true
			}
			from = end
		}
	}
	return useful
}

// prefetchMembers reports whether key is a large hash or set, or may be one.
func (s *Session) prefetchMembers(key []byte, members [][]byte) bool {
	sh := &s.e.shards[shardOf(key)]
	if !sh.mu.TryLock() {
		return true
	}
	defer sh.mu.Unlock()
	ks := sh.dbs[s.db]
	if ks == nil {
		return false
	}
	it := ks.keys.find(key, hashOf(key))
	if it == nil {
		return false
	}
	switch it.val.form {
	case formHash:
		d := asHash(it).many()
		if d == nil {
			return false
		}
		found, sum := d.prefetch(members)
		for _, e := range found {
			if e != nil && len(e.val) > 0 {
				sum += e.val[0]
			}
		}
		s.loaded += sum
	case formSet:
		_, sum := asSet(it).big().prefetch(members)
		s.loaded += sum
	default:
		return false
	}
	return true
}

// prefetch finds the entries of up to 16 keys. sum depends on all that it has loaded.
func (d *dict[V]) prefetch(keys [][]byte) (found [prefetched]*entry[V], sum byte) {
	var hashes [prefetched]uint32
	t := &d.tables[0]
	if d.len() == 0 {
		return found, 0
	}
	for i, key := range keys {
		hashes[i] = hashOf(key)
	}
	for i := range keys {
		found[i] = t.head(uint64(hashes[i]) & t.mask)
	}
	for i, e := range found[:len(keys)] {
		for e != nil && e.hash != hashes[i] {
			e = e.next
		}
		found[i] = e
	}
	for _, e := range found[:len(keys)] {
		if e != nil && len(e.key) > 0 {
			sum += e.key[0]
		}
	}
	return found, sum
}

// prefetch is [Session.Prefetch] for the keys of the command at hand, which are in keyBuf.
func (c *call) prefetch() {
	var keys [prefetched][]byte
	for at := c.keyBuf; len(at) > 0; {
		n := min(len(at), prefetched)
		for i, arg := range at[:n] {
			keys[i] = c.args[arg]
		}
		c.s.prefetch(c.db, keys[:n])
		at = at[n:]
	}
}

func (s *Session) prefetch(db int, keys [][]byte) {
	var tables [prefetched]*buckets[value]
	var hashes [prefetched]uint32
	var items [prefetched]*item
	// The loads of each loop don't depend on each other, so that they overlap.
	for i, key := range keys {
		tables[i], hashes[i] = s.e.shards[shardOf(key)].shown[db].Load(), hashOf(key)
	}
	for i, t := range tables[:len(keys)] {
		if t != nil {
			items[i] = t.head(uint64(hashes[i]) & t.mask)
		}
	}
	sum := s.loaded
	for i, it := range items[:len(keys)] {
		if it == nil || it.hash != hashes[i] {
			continue
		}
		if n := len(it.key); n > 0 { // it may end in another cache line than the hash
			sum += it.key[n-1]
		}
	}
	s.loaded = sum
}
