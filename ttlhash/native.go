package ttlhash

import (
	"context"

	wire "github.com/redoubt-go/redoubt/internal/wire/ttlhash"
)

// clock returns the clock of the server that owns the keys.
func (h *Hashes) clock(keys wire.Keys) *clock {
	name := h.client.Node(keys[0])
	if c, ok := h.clocks.Load(name); ok {
		return c.(*clock)
	}
	c, _ := h.clocks.LoadOrStore(name, &clock{})
	return c.(*clock)
}

// Migrate lets the server expire the fields of a hash, after an upgrade to a server that
// can, and removes them from the index. It returns how many it moved. Fields that make
// events stay in the index. The error matches [ErrNotNative] if the server does not expire
// fields.
//
// The hash stays in use meanwhile. Migrate moves 512 fields in a round trip. It can be
// interrupted and repeated at any time, by several processes too. Processes that still
// emulate may go on; the next call moves the fields that they write.
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
