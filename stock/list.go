package stock

import (
	"context"
	"iter"

	"github.com/redoubt-go/redoubt/internal/pages"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
)

// List iterates over the items whose names match, a pattern like that of Redis' KEYS; an
// empty one matches all. It leaves out items that never had a unit. An error ends the
// loop.
//
// It is for administration: it scans every key of the server, or of all primaries of a
// cluster, in steps that each block the server for less than a millisecond. It costs a
// round trip for about 1,000 keys, and another if there are items among them. It may miss
// an item that is set or deleted meanwhile, or return one twice: see
// [redoubt.Client.Names].
func (v *Inventory) List(ctx context.Context, match string) iter.Seq2[Info, error] {
	return pages.All(func(cursor string) ([]Info, string, error) {
		found, next, err := wire.Page(ctx, v.client, match, cursor)
		if err != nil {
			return nil, "", err
		}
		items := make([]Info, len(found))
		for i, l := range found {
			items[i] = info(l.Name, l.Info)
		}
		return items, next, nil
	})
}
