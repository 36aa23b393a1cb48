package stock

import (
	"context"
	"errors"
	"iter"

	"github.com/redoubt-go/redoubt"
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
			items, next, err := Page(ctx, v.client, match, cursor)
			if err != nil {
				yield(Listed{}, err)
				return
			}
			for _, item := range items {
				if item.Info.Expired > 0 {
					if item.Info, err = v.Info(ctx, item.Name); err != nil {
						yield(Listed{}, err)
						return
					}
				}
				if !yield(item, nil) {
					return
				}
			}
			cursor = next
		}
	}
}

// Page is one step of [Inventory.List]: it begins with the cursor "0" and goes on
// with next, until that is "0" again. Of an item not all may be back that has run
// out: see [Info]. This is what STOCK.LS does.
func Page(ctx context.Context, client *redoubt.Client, match, cursor string) (items []Listed, next string, err error) {
	names, next, err := client.Names(ctx, stockPart, "hash", match, cursor)
	if err != nil || len(names) == 0 {
		return nil, next, err
	}
	cmds := make([]redoubt.Cmd, 0, len(names))
	asked := names[:0]
	for _, name := range names {
		if keys, err := KeysOf(client, name); err == nil { // else another has made the key
			cmds, asked = append(cmds, InfoCmd(keys)), append(asked, name)
		}
	}
	for i, reply := range client.Pipeline(ctx, cmds) {
		count, err := ReadCount(reply)
		switch {
		case errors.Is(err, redoubt.ErrWrongType): // another program made the key
		case err != nil:
			return nil, "", err
		default:
			items = append(items, Listed{asked[i], count.Info})
		}
	}
	return items, next, nil
}
