package stock

import (
	"context"
	"iter"

	"github.com/redoubt-go/redoubt/internal/pages"
	wire "github.com/redoubt-go/redoubt/internal/wire/stock"
)

// A Listed is an item that a listing found.
type Listed struct {
	Name string
	Info Info
}

// List goes over the items whose names match: a pattern as of Redis' KEYS, where
// an empty one matches all. One that never had a unit is no item. A loop over it
// ends with the first error.
//
// It is for people, not for programs that run all the time: it looks at every key
// of the server, or of all primaries of a cluster, though in steps that hold
// nobody up. Each step is a round trip for about 1,000 keys, and another where
// there are items among them. Items that are set or deleted meanwhile may be listed
// or not, and one may come twice: see [redoubt.Client.Names].
func (v *Inventory) List(ctx context.Context, match string) iter.Seq2[Listed, error] {
	return pages.All(func(cursor string) ([]Listed, string, error) {
		found, next, err := wire.Page(ctx, v.client, match, cursor)
		if err != nil {
			return nil, "", err
		}
		items := make([]Listed, len(found))
		for i, l := range found {
			items[i] = Listed{l.Name, Info(l.Info)}
			if l.Info.Expired == 0 {
				continue
			}
			if items[i].Info, err = v.Info(ctx, l.Name); err != nil {
				return nil, "", err
			}
		}
		return items, next, nil
	})
}
