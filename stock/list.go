package stock

import (
	"context"
	"iter"

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
	return func(yield func(Listed, error) bool) {
		for cursor := ""; cursor != "0"; {
			items, next, err := wire.Page(ctx, v.client, match, cursor)
			if err != nil {
				yield(Listed{}, err)
				return
			}
			for _, item := range items {
				info := Info(item.Info)
				if info.Expired > 0 {
					if info, err = v.Info(ctx, item.Name); err != nil {
						yield(Listed{}, err)
						return
					}
				}
				if !yield(Listed{item.Name, info}, nil) {
					return
				}
			}
			cursor = next
		}
	}
}
