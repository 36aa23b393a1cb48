package stock

import (
	"context"

	"github.com/redoubt-go/redoubt"
	"github.com/redoubt-go/redoubt/internal/wire/listing"
)

// Page lists the items on one page of [redoubt.Client.NamesPage].
func Page(ctx context.Context, client *redoubt.Client, match, cursor string) (items []listing.Listed[Info], next string, err error) {
	return listing.Page(ctx, client, stockPart, match, cursor,
		func(name string) (redoubt.Cmd, error) {
			keys, err := KeysOf(client, name)
			return InfoCmd(keys), err
		},
		func(r redoubt.Reply) (Info, bool, error) {
			count, err := ReadCount(r)
			return count.Info, true, err
		})
}
