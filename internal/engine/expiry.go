package engine

// An expiryHeap holds the items of one database of one shard that have a time
// to live, the earliest first.
type expiryHeap struct{ deadlines[*item] }

// set gives it a deadline in Unix ms, or takes it away with 0.
func (h *expiryHeap) set(it *item, at int64) {
	it.val.expire = at
	h.deadlines.set(it, at)
}

func (h *expiryHeap) drop(it *item) { h.set(it, 0) }

// A volatileHash is the item of a hash with fields that have a time to live,
// as the keyspace remembers it by the earliest of them.
type volatileHash struct{ it *item }

func (v volatileHash) place() *int32 { return &asHash(v.it).place }

// registerFields makes the sweeper look at a hash when its next field expires.
func (c *call) registerFields(it *item, h *hash) {
	at := h.earliest()
	ks := c.shard(view(it.key)).keyspace(c.db)
	if at != 0 || h.place >= 0 {
		ks.fields.set(volatileHash{it}, at)
	}
	if at != 0 {
		c.e.sweeper.wake(c.e, at)
	}
}

// forgetFields is for an item that is about to hold something else, or nothing.
func (ks *keyspace) forgetFields(it *item) {
	if it.val.kind() == kindHash && asHash(it).place >= 0 {
		ks.fields.set(volatileHash{it}, 0)
	}
}
