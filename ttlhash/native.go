package ttlhash

import (
	"context"

	wire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
)

// clock returns what is known of the clock of the server that owns the keys.
func (h *Hashes) clock(keys wire.Keys) *clock {
	name := h.client.Node(keys[0])
	if c, ok := h.clocks.Load(name); ok {
		return c.(*clock)
	}
	c, _ := h.clocks.LoadOrStore(name, &clock{})
	return c.(*clock)
}

// Migrate leaves the fields of a hash to the server, after it became one that expires
// fields: from then on they cost no index. It returns how many it moved. Fields whose
// end is an event stay in the index.
//
// The hash stays in use all the while; what is due is swept as usual. It takes 512
// fields in a round trip, and can be ended by ctx and begun again at any time, by
// several processes too: what is left to do is what is in the index. Processes that
// still emulate may go on; what they write is migrated by the next call. A server that
// does not expire fields gives an error that matches [ErrNotNative].
func (h *Hashes) Migrate(ctx context.Context, name string) (moved int, err error) {
	keys, err := h.keys(name)
	if err != nil {
		return 0, err
	}
	is, err := h.servers.Native(ctx, keys)
	if err == nil && !is {
		err = ErrNotNative
	}
	for again := true; err == nil && again; {
		again = false
		for from, more := int64(0), true; err == nil && more; {
			var n int
			if n, more, from, err = wire.ReadMigrated(h.client.Do(ctx, wire.MigrateCmd(keys, from))); err == nil {
				moved += n
				again = again || n > 0
			}
		}
	}
	return moved, err
}
